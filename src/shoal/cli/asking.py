"""Asking a run in another process for a change, and waiting for its answer."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import click

from shoal.errors import ConfigError, RunError
from shoal.model.control.messages import AddQuery, RemoveQuery, Repartition
from shoal.model.control.partitioning import Change, Merge, Split
from shoal.runtimes.protocol import KeptRun, RemoteCommand, Reply
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

timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds to wait for the run's answer.",
)


def kept_run(run_dir: str) -> tuple[int, KeptRun]:
    """The last committed epoch of a run, and the run, whichever runtime keeps it."""
    for kind in kinds():
        run = None if kind.kept is None else kind.kept(run_dir)
        last = None if run is None else run.last_epoch()
        if run is not None and last is not None:
            return last, run
    raise ConfigError(f"{run_dir} is not the checkpoint of a run that has committed an epoch")


def ask_all(run_dir: str, commands: Sequence[RemoteCommand], timeout_s: float) -> None:
    """Ask for all changes, wait for all answers, and say what became of each."""
    _last, run = kept_run(run_dir)
    if not run.is_running():
        raise ConfigError(f"no job is running on {run_dir}; start it with --checkpoint {run_dir}, then ask again")
    until_s = time.monotonic() + timeout_s
    asked = [(command, run.ask(command)) for command in commands]
    refused = []
    for command, number in asked:
        answer = polled(partial(run.reply, number), until_s)
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
        if reply := run.reply(first):
            return reply
        if run.is_open(first):
            raise RunError(f"the job on {run_dir} is carrying the command out and has not answered yet; see `list`")
    if not run.is_running():
        raise ConfigError(f"no job is running on {run_dir}; the command was withdrawn")
    raise RunError(
        f"the job on {run_dir} did not answer within {timeout_s:g} s, so the command was withdrawn; "
        "commands are taken up when the next input comes"
    )


def _said(command: RemoteCommand) -> str:
    """What became of a command, in the past tense."""
    if isinstance(command, Repartition):
        return "; ".join(map(_changed, command.changes))
    if isinstance(command, RemoveQuery):
        return f"removed {command.name}"
    return f"{'added' if isinstance(command, AddQuery) else 'replaced'} {command.query.name}"


def _changed(change: Change) -> str:
    if isinstance(change, Split):
        return f"split {change.instance} into {change.parts} parts"
    if isinstance(change, Merge):
        return f"merged {' and '.join(change.instances[1:])} into {change.instances[0]}"
    return f"divided {change.operator} among {change.groups} instances"
