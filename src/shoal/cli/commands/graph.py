"""`shoal graph`: any target's graph as YAML."""

import re
from collections.abc import Mapping
from pathlib import Path

import click

from shoal.cli.target import functions_of, target
from shoal.errors import ConfigError, reason_of
from shoal.language.python.stream import Stream
from shoal.language.sql.script import parse_script
from shoal.language.yaml.graph_file import save_graph
from shoal.model.query.functions import Function
from shoal.model.query.graph import Graph
from shoal.session.graphfile import graph_file
from shoal.workloads.workload import Amount

_CREATED = re.compile(r"\bcreate\s+(?:\w+\s+)*?table\s+(?:if\s+not\s+exists\s+)?[`\"]?(\w+)", re.IGNORECASE)


def target_graph(
    text: str,
    settings: Mapping[str, str],
    streams: Mapping[str, Stream] | None = None,
    functions: str | None = None,
    *,
    allow_pickle: bool = False,
) -> Graph:
    """The graph of a target, without the sources that a graph file or a SQL file would need to run.

    A SQL file may also read `streams`, unless it creates tables of the same names. `functions` and `allow_pickle` as
    in `shoal.cli.target`.
    """
    if text.endswith((".yaml", ".yml")) and not settings:
        return graph_file(Path(text), functions_of(functions), allow_pickle=allow_pickle).graph
    if text.endswith(".sql") and not settings:
        try:
            script = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"there is no file {text} with UTF-8 text") from error
        created = set(_CREATED.findall(script))
        known = {name: stream for name, stream in (streams or {}).items() if name not in created}
        own = {name: each for name, each in functions_of(functions).items() if isinstance(each, Function)}
        return Graph.of(parse_script(script, streams=known, functions=own, where=text).queries)
    return target(text, 0, Amount(), settings, None, functions, allow_pickle=allow_pickle).job.graph


def write_graph(
    text: str, output: str | None, settings: Mapping[str, str], functions: str | None, *, allow_pickle: bool
) -> None:
    """Write the graph of a target to a file, or to stdout."""
    written = save_graph(target_graph(text, settings, functions=functions, allow_pickle=allow_pickle))
    if output is None:
        click.echo(written, nl=False)
        return
    try:
        Path(output).write_text(written, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {reason_of(error)}") from error
