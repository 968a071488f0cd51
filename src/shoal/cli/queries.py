"""`shoal queries`: look at the queries of a run, and change them while it runs."""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import click

from shoal.cli.graph import target_graph
from shoal.errors import ConfigError, RunError
from shoal.model.graph import STATEFUL, Graph, Query
from shoal.model.messages import AddQuery, RemoveQuery, ReplaceQuery
from shoal.model.schema import TIME, Schema
from shoal.query.flow import Flow
from shoal.query.replay import source
from shoal.runtimes.protocol import KeptRun, QueryCommand, Reply
from shoal.runtimes.registry import kinds

T = TypeVar("T")
FIRST_POLL_S = 0.02
LAST_POLL_S = 0.5
"""Pauses between two looks for an answer: the first, and the longest, since each is twice the one before.

The run is another process, perhaps on another machine, and its checkpoint may be on any file system: there is nothing
to be woken by. An answer is seen at most half a second after it was given, and sooner if it was given soon.
"""
GRACE_S = 10.0
"""How much longer to wait for the answer to a command that has been taken up."""

_timeout = click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds to wait for the run's answer.",
)


@click.group()
def queries() -> None:
    """Look at the queries of a run, and change them while it runs; RUN_DIR is its checkpoint directory."""


@queries.command("list")
@click.argument("run_dir")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(run_dir: str, as_json: bool) -> None:
    """List the queries of a run as its last epoch had them."""
    epoch, graph = _last_graph(run_dir)
    listed = [_described(query) for query in graph.queries.values()]
    if as_json:
        click.echo(json.dumps({"epoch": epoch, "queries": listed}))
        return
    width = max([len("query"), *(len(each["name"]) for each in listed)])
    table_width = max([len("table"), *(len(each["table"]) for each in listed)])
    click.echo(f"{'query':{width}}  {'table':{table_width}}  operators  instances  streams")
    for each in listed:
        click.echo(
            f"{each['name']:{width}}  {each['table']:{table_width}}  {each['operators']:9}  {each['instances']:9}  "
            f"{', '.join(each['streams'])}"
        )


@queries.command()
@click.argument("run_dir")
@click.argument("target")
@click.option("--name", help="Name for the query, if the target has one only.")
@click.option("--replace", is_flag=True, help="Replace queries of the same name; without, that is an error.")
@_timeout
def add(run_dir: str, target: str, name: str | None, replace: bool, timeout: float) -> None:
    """Add all queries of TARGET (FILE.yaml, FILE.sql, FILE.py:NAME or a workload) to a run.

    A SQL file may read the streams of the run without creating tables for them.
    """
    _epoch, graph = _last_graph(run_dir)
    streams = {stream: source(operator.parameters) for stream, operator in graph.streams.items()}
    wanted = list(target_graph(target, {}, streams).queries.values())
    if name is not None:
        if len(wanted) != 1:
            raise ConfigError(f"--name is for a target with one query; {target} has {len(wanted)}")
        wanted = [renamed(wanted[0], name)]
    running = graph.queries if replace else {}
    _ask_all(run_dir, [ReplaceQuery(q) if q.name in running else AddQuery(q) for q in wanted], timeout)


@queries.command()
@click.argument("run_dir")
@click.argument("name")
@_timeout
def remove(run_dir: str, name: str, timeout: float) -> None:
    """Remove the query called NAME from a run."""
    _last_graph(run_dir)
    _ask_all(run_dir, [RemoveQuery(name)], timeout)


def renamed(query: Query, name: str) -> Query:
    """A query under another name; its table goes with it unless it had a name of its own."""
    table = name if query.table == query.name else query.table
    (behind,) = query.sink.inputs
    flow = Flow(tuple(sorted(query.operators[:-1], key=lambda each: each.id == behind)), Schema.of(query.columns), TIME)
    return flow.sink(name, table=table)


def _kept(run_dir: str) -> tuple[int, KeptRun]:
    """The last committed epoch of a run, and the run, whichever runtime keeps it."""
    for kind in kinds():
        run = None if kind.kept is None else kind.kept(run_dir)
        last = None if run is None else run.last_epoch()
        if run is not None and last is not None:
            return last, run
    raise ConfigError(f"{run_dir} is not the checkpoint of a run that has committed an epoch")


def _last_graph(run_dir: str) -> tuple[int, Graph]:
    """The last committed epoch of a run and its graph."""
    last, run = _kept(run_dir)
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


def _ask_all(run_dir: str, commands: Sequence[QueryCommand], timeout_s: float) -> None:
    """Ask for all changes, wait for all answers, and say what became of each."""
    _last, run = _kept(run_dir)
    if not run.is_running():
        raise ConfigError(f"no job is running on {run_dir}; start it with --checkpoint {run_dir}, then ask again")
    until_s = time.monotonic() + timeout_s
    asked = [(command, run.ask(command)) for command in commands]
    refused = []
    for command, number in asked:
        answer = polled(partial(run.answer, number), until_s)
        if answer is None:
            rest = asked[asked.index((command, number)) :]
            answer = _given_up(run, [number for _, number in rest], run_dir, timeout_s)
        if answer.epoch is None:
            refused.append(answer.reason)
        else:
            click.echo(f"{_said(command)} in epoch {answer.epoch}")
    if refused:
        raise ConfigError("; ".join(f"refused: {reason}" for reason in refused))


def polled(
    look: Callable[[], T | None],
    until_s: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> T | None:
    """Look for something again and again, less and less often; None where it is not there at the deadline either.

    It looks once at least, and once more when the time is up.
    """
    pause_s = FIRST_POLL_S
    while True:
        left_s = until_s - clock()
        found = look()
        if found is not None or left_s <= 0:
            return found
        pause(min(pause_s, left_s))
        pause_s = min(2 * pause_s, LAST_POLL_S)


def _given_up(run: KeptRun, numbers: Sequence[str], run_dir: str, timeout_s: float) -> Reply:
    """Withdraw what has not been taken up; whoever has been taken up is waited for a little longer."""
    first, *others = numbers
    for number in reversed(others):
        run.withdraw(number)
    if not run.withdraw(first):
        polled(lambda: None if run.is_open(first) else True, time.monotonic() + GRACE_S)
        if answer := run.answer(first):
            return answer
        if run.is_open(first):
            raise RunError(f"the job on {run_dir} is carrying the command out and has not answered yet; see `list`")
    if not run.is_running():
        raise ConfigError(f"no job is running on {run_dir}; the command was withdrawn")
    raise RunError(
        f"the job on {run_dir} did not answer within {timeout_s:g} s, so the command was withdrawn; "
        "commands are taken up when the next input comes"
    )


def _said(command: QueryCommand) -> str:
    if isinstance(command, RemoveQuery):
        return f"removed {command.name}"
    return f"{'added' if isinstance(command, AddQuery) else 'replaced'} {command.query.name}"
