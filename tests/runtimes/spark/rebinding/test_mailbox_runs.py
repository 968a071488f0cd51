"""Runs that take commands from files: as commands of the session, refused at the end, and kept through crashes."""

from collections.abc import Callable
from itertools import count as count_up
from pathlib import Path
from typing import Any

import pytest
from tests.runtimes.spark.crashing import crashes
from tests.runtimes.spark.rebinding.test_mailbox import NAME, fastest, poll_always
from tests.runtimes.spark.small_spark import SmallRun, roots, small_spark

from shoal.model.control.messages import AddQuery, RemoveQuery, ReplaceQuery
from shoal.runtimes.spark.rebinding.mailbox import CommandReply, MailboxClient
from shoal.runtimes.spark.state.store import hot_directory
from shoal.storage.directory import Directory

__all__ = ["poll_always", "roots", "small_spark"]


def asked(run: SmallRun, *commands: Any) -> list[str]:
    client = MailboxClient(run.uri)
    return [client.ask(command) for command in commands]


COMMANDS = (AddQuery(fastest()), RemoveQuery(NAME), AddQuery(fastest()), ReplaceQuery(fastest(80)))


@pytest.mark.usefixtures("small_spark")
def test_commands_by_files_do_what_commands_of_the_session_do(roots: Callable[[], Path]) -> None:
    inside = SmallRun(roots(), commands={2: COMMANDS})
    inside.go()
    outside = SmallRun(roots())
    outside.go(until=2)
    numbers = asked(outside, *COMMANDS)
    outside.go()
    assert outside.digest() == inside.digest()
    replies = [MailboxClient(outside.uri).reply(number) for number in numbers]
    assert [reply and reply.epoch for reply in replies] == [2, 2, None, 2]
    assert replies[2] is not None
    assert "query 'fastest' is declared twice" in replies[2].reason


@pytest.mark.usefixtures("small_spark")
def test_commands_that_come_after_the_last_input_are_refused(roots: Callable[[], Path]) -> None:
    run = SmallRun(roots(), epochs=2)
    run.go(until=1)
    runtime = run.started()
    number = None
    while not runtime._all_ended():
        epoch = run.next_epoch()
        run.note("offsets", epoch, str((epoch + 1) * run.rows_per_epoch))
        runtime._epoch(run.rows(epoch), epoch)
        run.note("commits", epoch, "done")
    (number,) = asked(run, RemoveQuery(NAME))
    runtime._flush()
    assert MailboxClient(run.uri).reply(number) == CommandReply(
        None, "the run has taken in all of its input and is ending"
    )


@pytest.mark.usefixtures("small_spark")
def test_a_crash_of_a_run_at_any_moment_leaves_the_same_results_and_replies(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = SmallRun(roots(), epochs=3, commands={1: COMMANDS})
    right.go()
    for operation in count_up(1):
        run = SmallRun(roots(), epochs=3)
        run.go(until=1)
        numbers = asked(run, *COMMANDS)
        if not crashes(run.go, operation, monkeypatch):
            assert operation > 30
            break
        run.go()
        assert run.digest() == right.digest()
        replies = [MailboxClient(run.uri).reply(number) for number in numbers]
        assert [reply and reply.epoch for reply in replies] == [1, 1, None, 1]
        Directory(hot_directory(run.uri)).clear()
