"""Targets: the job that a command-line argument stands for, and the options that name the code it may use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import pyarrow as pa

from shoal.cli.python_file import executed, found_in, names_of_jobs
from shoal.connectors.formats.format import FORMATS
from shoal.connectors.sinks import Sink
from shoal.connectors.sources.files import Files
from shoal.connectors.sources.source import Source
from shoal.connectors.sources.sumo import Sumo
from shoal.errors import ConfigError, did_you_mean
from shoal.model.query.aggregate import OwnAggregate, is_aggregate
from shoal.model.query.code import code_of
from shoal.model.query.functions import Function
from shoal.session.graphfile import job_from_graph, text_of
from shoal.session.job import Job
from shoal.workloads.catalog import WORKLOADS, workload
from shoal.workloads.workload import Amount

Expected = Callable[[int], Mapping[str, pa.Table]]
F = TypeVar("F", bound=Callable[..., Any])


def code_options(command: F) -> F:
    """Add `--functions` and `--allow-pickle` to a command; nothing else in a file is run."""
    functions = click.option(
        "--functions",
        metavar="FILE.py",
        help="Functions (shoal.udf) and classes of aggregates that a SQL or YAML file uses by name.",
    )
    pickle = click.option(
        "--allow-pickle",
        is_flag=True,
        help="Run code that a YAML file or an unsigned checkpoint contains; only for files that you trust.",
    )
    return functions(pickle(command))


@dataclass(frozen=True)
class Target:
    """A job under the name that the user gave, with its oracle and its sink, if any."""

    name: str
    job: Job
    expected: Expected | None
    sink: Sink | None = None


def target(
    text: str,
    seed: int,
    amount: Amount,
    settings: Mapping[str, str],
    source: Source | None,
    functions: str | None = None,
    *,
    allow_pickle: bool = False,
) -> Target:
    """A workload by name, a graph file (`file.yaml`), a SQL file, or the `job` of a Python file (`file.py:job`).

    `functions` is a Python file with functions that a SQL or graph file uses by name; `allow_pickle` trusts code in a
    graph file itself.
    """
    if functions is not None and not text.endswith((".sql", ".yaml", ".yml")):
        raise ConfigError(f"--functions is for SQL and YAML files; {text} takes none")
    if text in WORKLOADS:
        ready = workload(text).ready(seed, amount, settings, source)
        return Target(text, ready.job, ready.expected)
    path, colon, attribute = text.rpartition(":")
    if colon and path.endswith(".py"):
        if settings:
            raise ConfigError(f"--set is for workloads; {text} takes no settings")
        return Target(text, _from_file(Path(path), attribute, source), None)
    if text.endswith((".yaml", ".yml")):
        named = functions_of(functions)
        job = job_from_graph(Path(text), amount.rows_per_epoch, source, settings, named, allow_pickle=allow_pickle)
        return Target(text, job, None)
    if text.endswith(".sql"):
        if settings:
            raise ConfigError(f"--set is for workloads; {text} takes no settings")
        return _from_sql(Path(text), functions, source)
    if text.endswith(".py") and Path(text).is_file():
        raise ConfigError(f"target {text} is a Python file; {names_of_jobs(Path(text), Job)}")
    raise ConfigError(
        f"target must be a workload ({', '.join(WORKLOADS)}), FILE.yaml, FILE.sql or FILE.py:NAME; got {text!r}"
        + did_you_mean(text, WORKLOADS)
    )


def _from_sql(path: Path, functions: str | None, source: Source | None) -> Target:
    """A SQL file; it can call the functions of a Python file by their names."""
    from shoal.language.sql.script import parse_script
    from shoal.session.script import job_of_script, sink_of

    own = {name: each for name, each in functions_of(functions).items() if isinstance(each, Function)}
    if functions is not None and not own:
        raise ConfigError(f"{functions} has no function for SQL; mark some with @shoal.udf")
    text = text_of(path)
    script = parse_script(text, functions=own, where=str(path))
    streams = sorted({stream for query in script.queries for stream in query.streams})
    if source is not None and len(streams) != 1:
        raise ConfigError(f"--source replaces the source of a job with one stream; {path} has {len(streams)}")
    job = job_of_script(script, path.stem, {} if source is None else {streams[0]: source})
    return Target(str(path), job, None, sink_of(script))


def functions_of(file: str | None) -> dict[str, Function | OwnAggregate]:
    """What a Python file offers to SQL and YAML by name: functions marked with `shoal.udf`, and aggregate classes."""
    if file is None:
        return {}
    module = executed(Path(file))
    found: dict[str, Function | OwnAggregate] = {}
    for name, each in vars(module).items():
        if isinstance(each, Function):
            found[each.name] = each
        elif is_aggregate(each) and each.__module__ == module.__name__:
            found[name] = OwnAggregate(name, code_of(each))
    if not found:
        raise ConfigError(f"{file} has no function; mark some with @shoal.udf, or define classes of aggregates")
    return found


def _from_file(path: Path, attribute: str, source: Source | None) -> Job:
    job = found_in(path, attribute)
    if not isinstance(job, Job):
        raise ConfigError(f"{path}:{attribute} must be a Job or a function that returns one; got {type(job).__name__}")
    if source is None:
        return job
    if len(job.sources) != 1:
        raise ConfigError(f"--source replaces the source of a job with one stream; {path} has {len(job.sources)}")
    return Job(job.name, job.graph, dict.fromkeys(job.sources, source))


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Settings as KEY=VALUE; `option` is what an error calls them."""
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"{option} takes KEY=VALUE; got {text!r}")
        pairs[key] = value
    return pairs


def source_from_uri(uri: str, rows_per_epoch: int | None) -> Source:
    """A source by its address: `parquet:DIR`, `arrow:DIR`, `csv:DIR` or `sumo:SCENARIO`.

    `?follow` waits for new files, `?time_unit=s` says what numbers count in columns of times; `&` joins both.
    A scenario may have `?seed=N`, `?end=SECONDS`, `?speed=FACTOR` and `?geo`.
    """
    kind, _, rest = uri.partition(":")
    directory, _, query = rest.partition("?")
    options = dict(each.partition("=")[::2] for each in query.split("&") if each)
    if kind == "sumo":
        return _simulation(uri, directory, options, rows_per_epoch)
    if kind not in FORMATS or not directory or set(options) - {"follow", "time_unit"} or options.get("follow"):
        raise ConfigError(
            f"source must be {', '.join(f'{name}:DIR' for name in FORMATS)}, "
            f"optionally with ?follow or ?time_unit=UNIT, or sumo:SCENARIO; got {uri!r}"
        )
    files = Files(
        directory,
        kind,  # type: ignore[arg-type]
        rows_per_epoch,
        follow="follow" in options,
        time_unit=options.get("time_unit"),  # type: ignore[arg-type]
    )
    files.check()
    return files


def _simulation(uri: str, scenario: str, options: Mapping[str, str], rows_per_epoch: int | None) -> Source:
    """A scenario of SUMO, with the options of its address."""
    numbers: dict[str, float] = {}
    try:
        numbers = {name: float(options[name]) for name in ("seed", "end", "speed") if name in options}
    except ValueError:
        scenario = ""
    if not scenario or set(options) - {"seed", "end", "speed", "geo"} or options.get("geo"):
        raise ConfigError(
            "source of a simulation must be sumo:SCENARIO, "
            f"optionally with ?seed=N, ?end=SECONDS, ?speed=FACTOR or ?geo; got {uri!r}"
        )
    seed = numbers.get("seed")
    if seed is not None and not (seed.is_integer() and 0 <= seed < 2**31):
        raise ConfigError(f"seed of a simulation must be a whole number from 0 to {2**31 - 1}; got {options['seed']}")
    found = Sumo(
        scenario,
        rows_per_epoch or Sumo.rows_per_epoch,
        seed=None if seed is None else int(seed),
        end_s=numbers.get("end"),
        speed=numbers.get("speed"),
        geo="geo" in options,
    )
    found.check()
    return found
