"""Send commands to a run in another process, and wait for its replies."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import click

from shoal.errors import ConfigError, RunError
from shoal.model.control.messages import AddQuery, RemoveQuery, Repartition
from shoal.model.control.partitioning import Change, Cut, Merge, Regroup, Split
from shoal.runtimes.protocol import KeptRun, RemoteCommand, Reply
from shoal.runtimes.registry import kinds

T = TypeVar("T")
FIRST_POLL_S = 0.02
LAST_POLL_S = 0.5
"""The first and the longest pause between two polls for a reply; each pause is twice the one before.

The run is another process, perhaps on another machine, and its checkpoint may be on any file system, so it cannot
notify us. A reply is found at most half a second after it was given, and sooner if it was given soon.
"""
GRACE_S = 10.0
"""Additional time to wait for the reply to a command that the run has accepted."""

timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds to wait for the run's reply.",
)


def kept_run(run_dir: str) -> tuple[int, KeptRun]:
    """The last committed epoch of a run, and the run, by the runtime that wrote its checkpoint."""
    for kind in kinds():
        run = None if kind.kept is None else kind.kept(run_dir)
        last = None if run is None else run.last_epoch()
        if run is not None and last is not None:
            return last, run
    raise ConfigError(f"{run_dir} is not the checkpoint of a run that has committed an epoch")


def ask_all(run_dir: str, commands: Sequence[RemoteCommand], timeout_s: float) -> None:
    """Send all commands, wait for all replies, and print the outcome of each."""
    _last, run = kept_run(run_dir)
    if not run.is_running():
        raise ConfigError(f"no job is running on {run_dir}; start it with --checkpoint {run_dir}, then try again")
    until_s = time.monotonic() + timeout_s
    asked = [(command, run.ask(command)) for command in commands]
    refused = []
    for command, number in asked:
        reply = polled(partial(run.reply, number), until_s)
        if reply is None:
            rest = asked[asked.index((command, number)) :]
            reply = _given_up(run, [number for _, number in rest], run_dir, timeout_s)
        if reply.epoch is None:
            refused.append(reply.reason)
        else:
            click.echo(f"{_said(command)} in epoch {reply.epoch}")
    if refused:
        raise ConfigError("; ".join(f"refused: {reason}" for reason in refused))


def polled(
    poll: Callable[[], T | None],
    until_s: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> T | None:
    """Poll with growing pauses until something is found; None if nothing is at the deadline.

    Polls at least once, and once more at the deadline.
    """
    pause_s = FIRST_POLL_S
    while True:
        left_s = until_s - clock()
        found = poll()
        if found is not None or left_s <= 0:
            return found
        pause(min(pause_s, left_s))
        pause_s = min(2 * pause_s, LAST_POLL_S)


def _given_up(run: KeptRun, numbers: Sequence[str], run_dir: str, timeout_s: float) -> Reply:
    """Withdraw commands that the run has not accepted, and wait a little longer for one that it has."""
    first, *others = numbers
    for number in reversed(others):
        run.withdraw(number)
    if not run.withdraw(first):
        polled(lambda: None if run.is_open(first) else True, time.monotonic() + GRACE_S)
        if reply := run.reply(first):
            return reply
        if run.is_open(first):
            raise RunError(f"the job on {run_dir} is carrying out the command and has not replied yet; see `list`")
    if not run.is_running():
        raise ConfigError(f"no job is running on {run_dir}; the command was withdrawn")
    raise RunError(
        f"the job on {run_dir} did not reply within {timeout_s:g} s, so the command was withdrawn; "
        "a run accepts commands when it reads its next input"
    )


def _said(command: RemoteCommand) -> str:
    """The outcome of a command, in the past tense."""
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
    if isinstance(change, Cut):
        return f"cut {change.instance} at {change.axis} {change.at}"
    count = change.groups if isinstance(change, Regroup) else len(change.tiles)
    return f"divided {change.operator} among {count} instances"
