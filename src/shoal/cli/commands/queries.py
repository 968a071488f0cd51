"""`shoal queries`: list the queries of a run, and change them while it runs."""

import json
from typing import Any

import click

from shoal.cli.asking import ask_all, kept_run, timeout_option
from shoal.cli.commands.graph import target_graph
from shoal.cli.target import code_options
from shoal.compiler.query_failure import failure_text
from shoal.errors import ConfigError
from shoal.language.python.flow import Flow
from shoal.language.python.replay import source
from shoal.model.control.messages import AddQuery, RemoveQuery, ReplaceQuery
from shoal.model.query.graph import STATEFUL, Graph, Query
from shoal.model.query.schema import TIME, Schema


@click.group()
def queries() -> None:
    """List the queries of a run, and change them while it runs; RUN_DIR is its checkpoint directory."""


@queries.command("list")
@click.argument("run_dir")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(run_dir: str, as_json: bool) -> None:
    """List the queries of the last epoch of a run."""
    epoch, run = kept_run(run_dir)
    listed = [_described(query) for query in run.graph(epoch).queries.values()]
    parked = run.parked(epoch)
    if as_json:
        failed = [{"name": each.name, "reason": each.reason, "row": each.row} for each in parked]
        click.echo(json.dumps({"epoch": epoch, "queries": listed, "parked": failed}))
        return
    width = max([len("query"), *(len(each["name"]) for each in listed)])
    table_width = max([len("table"), *(len(each["table"]) for each in listed)])
    click.echo(f"{'query':{width}}  {'table':{table_width}}  operators  instances  streams")
    for each in listed:
        click.echo(
            f"{each['name']:{width}}  {each['table']:{table_width}}  {each['operators']:9}  {each['instances']:9}  "
            f"{', '.join(each['streams'])}"
        )
    for failure in parked:
        click.echo(f"parked: {failure_text([failure.name], failure.reason, failure.row)}")


@queries.command()
@click.argument("run_dir")
@click.argument("target")
@click.option("--name", help="Name for the query, if the target has only one.")
@click.option("--replace", is_flag=True, help="Replace queries of the same name instead of failing.")
@code_options
@timeout_option
def add(
    run_dir: str,
    target: str,
    name: str | None,
    replace: bool,
    timeout: float,
    functions: str | None,
    allow_pickle: bool,
) -> None:
    """Add all queries of TARGET (FILE.yaml, FILE.sql, FILE.py:NAME or a workload) to a run.

    A SQL file may read the streams of the run without creating tables for them.
    """
    _epoch, graph = _last_graph(run_dir)
    streams = {stream: source(operator.parameters) for stream, operator in graph.streams.items()}
    wanted = list(target_graph(target, {}, streams, functions, allow_pickle=allow_pickle).queries.values())
    if name is not None:
        if len(wanted) != 1:
            raise ConfigError(f"--name is for a target with one query; {target} has {len(wanted)}")
        wanted = [renamed(wanted[0], name)]
    running = graph.queries if replace else {}
    ask_all(run_dir, [ReplaceQuery(q) if q.name in running else AddQuery(q) for q in wanted], timeout)


@queries.command()
@click.argument("run_dir")
@click.argument("name")
@timeout_option
def remove(run_dir: str, name: str, timeout: float) -> None:
    """Remove the query called NAME from a run."""
    _last_graph(run_dir)
    ask_all(run_dir, [RemoveQuery(name)], timeout)


def renamed(query: Query, name: str) -> Query:
    """A query under another name; its table is renamed as well if it had the same name."""
    table = name if query.table == query.name else query.table
    (last,) = query.sink.inputs
    flow = Flow(tuple(sorted(query.operators[:-1], key=lambda each: each.id == last)), Schema.of(query.columns), TIME)
    return flow.sink(name, table=table)


def _last_graph(run_dir: str) -> tuple[int, Graph]:
    """The last committed epoch of a run and its graph."""
    last, run = kept_run(run_dir)
    return last, run.graph(last)


def _described(query: Query) -> dict[str, Any]:
    graph = Graph.of([query])
    return {
        "name": query.name,
        "streams": list(query.streams),
        "table": query.table,
        "operators": len(graph.operators),
        "instances": sum(operator.groups for operator in graph.operators.values() if operator.kind in STATEFUL),
    }
