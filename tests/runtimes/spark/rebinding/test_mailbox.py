"""The mailbox of a run: commands by files, carried out once each, whatever crashes in between."""

import json
from collections.abc import Callable
from itertools import count as count_up
from pathlib import Path
from typing import Any

import pytest
from tests.runtimes.spark.crashing import Crash, crash_at
from tests.runtimes.spark.small_spark import SmallRun, places, small_spark
from tests.small_city import city

from shoal.errors import CheckpointError, GraphError
from shoal.model.control.messages import AddQuery, RemoveQuery, Repartition, ReplaceQuery
from shoal.model.control.partitioning import Merge, Regroup, Split
from shoal.model.query.aggregate import count, max_
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph, InstanceId, OperatorId, Query
from shoal.model.query.window import tumbling
from shoal.policies.binding.static import round_robin
from shoal.runtimes.spark.driver.position import Position, changed
from shoal.runtimes.spark.driver.restore import desired
from shoal.runtimes.spark.rebinding import mailbox as mailbox_module
from shoal.runtimes.spark.rebinding.mailbox import FOLDER, REQUESTS, Answer, Letters, Mailbox, command_of, request
from shoal.runtimes.spark.state.store import hot_directory
from shoal.storage.directory import Directory
from shoal.storage.record import sealed
from shoal.workloads.traffic.queries import STREAM, vehicles

__all__ = ["places", "small_spark"]
GRAPH = city().job.graph
NAME = "vehicle_count[1]"


@pytest.fixture(autouse=True)
def look_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "LOOK_INTERVAL_S", 0.0)


def fastest(limit: int = 0) -> Query:
    part = vehicles().filter(col("speed") >= limit).key_by("vehicle_type").window(tumbling(2))
    return part.aggregate(n=count(), fastest=max_("speed")).sink("fastest")


def left(root: Path) -> list[str]:
    return sorted(path.name for path in (root / FOLDER).glob("*"))


@pytest.mark.parametrize(
    "command",
    [
        AddQuery(fastest()),
        ReplaceQuery(fastest()),
        RemoveQuery("a[1]"),
        Repartition((Split(InstanceId("a/1"), 3),)),
        Repartition((Merge((InstanceId("a/1"), InstanceId("a/2"))),)),
        Repartition((Regroup(OperatorId("a"), 7),)),
    ],
)
def test_a_command_comes_back_from_its_file(command: Any) -> None:
    assert command_of(REQUESTS.decode(REQUESTS.encode(request(command)), "here")) == command


def test_a_command_is_taken_up_once_and_answered_when_its_epoch_is_committed(tmp_path: Path) -> None:
    letters, mailbox = Letters(str(tmp_path)), Mailbox(str(tmp_path))
    assert mailbox.take(3) == []
    first, second = letters.ask(RemoveQuery("a")), letters.ask(RemoveQuery("b"))
    assert mailbox.take(3) == [(first, RemoveQuery("a")), (second, RemoveQuery("b"))]
    assert mailbox.take(4) == []
    mailbox.answer(2)
    assert letters.answer(first) is None
    mailbox.refuse(second, "no query is named 'b'")
    mailbox.answer(3)
    assert (letters.answer(first), letters.answer(second)) == (Answer(3), Answer(None, "no query is named 'b'"))
    assert left(tmp_path) == []


def test_what_cannot_be_understood_is_refused_at_once(tmp_path: Path) -> None:
    mailbox, letters = Mailbox(str(tmp_path)), Letters(str(tmp_path))
    directory = Directory(str(tmp_path))
    asked = [
        b"nonsense",
        sealed(b'{"format":2,"kind":"dance"}'),
        sealed(b'{"format":2,"kind":"add","graph":{"operators":{},"queries":{}}}'),
        sealed(b'{"format":2,"kind":"remove"}'),
        sealed(b'{"command":"remove","name":"a"}'),
    ]
    for number, content in enumerate(asked):
        directory.write(f"{FOLDER}/{number}.json", content)
    assert mailbox.take(0) == []
    answers = [letters.answer(str(number)) for number in range(len(asked))]
    place = f"command {tmp_path}/{FOLDER}"
    assert [answer.reason for answer in answers if answer] == [
        f"{place}/0.json is damaged: its checksum does not match; ask for it again",
        (
            f"{place}/1.json is damaged: field kind must be add, replace, remove, split, merge, regroup; got 'dance'; "
            "ask for it again"
        ),
        "a command must have one query; got 0",
        f"{place}/3.json is damaged: field name is missing; ask for it again",
        f"{place}/4.json has format 1; this version reads format 2",
    ]
    assert left(tmp_path) == []


def test_a_damaged_answer_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    Directory(str(tmp_path)).write(f"{FOLDER}/1.answer", sealed(b'{"format":2,"kind":"answer","epoch":"3"}'))
    with pytest.raises(
        CheckpointError, match=r"answer .*/1.answer is damaged: field epoch must be int \| null; got str"
    ):
        Letters(str(tmp_path)).answer("1")


def test_a_command_that_is_withdrawn_is_not_taken_up(tmp_path: Path) -> None:
    letters, mailbox = Letters(str(tmp_path)), Mailbox(str(tmp_path))
    number = letters.ask(RemoveQuery("a"))
    assert letters.withdraw(number)
    assert mailbox.take(0) == []


def test_a_command_that_is_withdrawn_while_it_is_taken_up_is_not_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters, mailbox = Letters(str(tmp_path)), Mailbox(str(tmp_path))
    number, write = letters.ask(RemoveQuery("a")), Directory.write

    def write_late(self: Directory, name: str, content: bytes) -> None:
        if name.endswith(".taken"):
            assert letters.withdraw(number)
        write(self, name, content)

    monkeypatch.setattr(Directory, "write", write_late)
    assert mailbox.take(0) == []
    assert left(tmp_path) == []


def test_a_command_that_was_taken_up_cannot_be_withdrawn(tmp_path: Path) -> None:
    letters, mailbox = Letters(str(tmp_path)), Mailbox(str(tmp_path))
    number = letters.ask(RemoveQuery("a"))
    assert len(mailbox.take(0)) == 1
    assert not letters.withdraw(number)
    mailbox.answer(0)
    assert letters.answer(number) == Answer(0)


def test_a_run_does_not_look_more_often_than_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "LOOK_INTERVAL_S", 60.0)
    letters, mailbox = Letters(str(tmp_path)), Mailbox(str(tmp_path))
    assert mailbox.take(0) == []
    letters.ask(RemoveQuery("a"))
    assert mailbox.take(1) == []
    assert len(mailbox.take(2, at_once=True)) == 1


def test_answers_that_nobody_fetches_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "KEPT_ANSWERS", 3)
    letters, mailbox = Letters(str(tmp_path)), Mailbox(str(tmp_path))
    for epoch in range(6):
        letters.ask(RemoveQuery("a"))
        mailbox.take(epoch)
        mailbox.answer(epoch)
    assert len(left(tmp_path)) == 3


def test_a_damaged_mark_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    Directory(str(tmp_path)).write(f"{FOLDER}/1.taken", b"nonsense")
    with pytest.raises(CheckpointError, match=r"commands/1.taken is damaged"):
        Mailbox(str(tmp_path)).recover(0, planned=False)


class Play:
    """A run reduced to what the mailbox needs: plans and manifests that say which names are there."""

    def __init__(self, root: Path) -> None:
        self.root, self.directory = root, Directory(str(root))

    def epochs(self, kind: str) -> list[int]:
        return [int(name) for name in self.directory.names(kind)]

    def names(self, kind: str, epoch: int) -> list[str]:
        return list(json.loads(self.directory.read(f"{kind}/{epoch:03d}"))) if epoch >= 0 else []

    def go(self, epochs: int) -> None:
        mailbox = Mailbox(str(self.root))
        last = max(self.epochs("epochs"), default=-1)
        mailbox.recover(last, planned=last + 1 in self.epochs("plans"))
        for epoch in range(last + 1, epochs):
            if epoch not in self.epochs("plans"):
                names = self.names("epochs", epoch - 1)
                for number, command in mailbox.take(epoch):
                    assert isinstance(command, RemoveQuery)
                    if command.name in names:
                        mailbox.refuse(number, "again")
                    else:
                        names.append(command.name)
                self.directory.write(f"plans/{epoch:03d}", json.dumps(names).encode())
            self.directory.write(f"epochs/{epoch:03d}", json.dumps(self.names("plans", epoch)).encode())
            mailbox.answer(epoch)


def test_a_crash_at_any_moment_neither_loses_nor_repeats_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for operation in count_up(1):
        play = Play(tmp_path / str(operation))
        play.go(1)
        letters = Letters(str(play.root))
        numbers = [letters.ask(RemoveQuery(name)) for name in ("a", "b", "a", "c")]
        with monkeypatch.context() as patched:
            reached = crash_at(operation, patched)
            crashed = False
            try:
                play.go(3)
            except Crash:
                crashed = True
        if not crashed:
            assert reached() > 20
            break
        play.go(4)
        assert play.names("epochs", 3) == ["a", "b", "c"]
        answers = [letters.answer(number) for number in numbers]
        assert [answer is not None and answer.epoch is not None for answer in answers] == [True, True, False, True]
        accepted = [answer.epoch for answer in answers if answer and answer.epoch is not None]
        assert all("a" in play.names("epochs", epoch) for epoch in accepted)
        assert left(play.root) == []


def position(declared: Graph = GRAPH) -> Position:
    return Position(declared, round_robin(declared, 2), declared=tuple(declared.queries), streams=(STREAM,))


def test_a_query_that_is_replaced_stays_replaced_after_a_restart() -> None:
    other = vehicles().filter(col("speed") > 50).key_by("region").window(tumbling(5)).aggregate(vehicle_count=count())
    query = other.sink(NAME, table="vehicle_count")
    after = changed(position(), ReplaceQuery(query), {STREAM})
    assert list(after.graph.queries) == list(GRAPH.queries)
    assert after.graph.queries[NAME] == query
    assert desired(GRAPH, after).queries[NAME] == query
    gone = changed(after, RemoveQuery(NAME), {STREAM})
    assert NAME not in desired(GRAPH, gone).queries
    back = changed(gone, AddQuery(query), {STREAM})
    assert desired(GRAPH, back).queries[NAME] == query


def test_what_a_replaced_query_shares_with_its_old_self_keeps_its_instances() -> None:
    before = position(GRAPH.with_query(fastest()))
    again = fastest()
    renamed = vehicles().filter(col("speed") >= 0).key_by("vehicle_type").window(tumbling(2))
    same_state = renamed.aggregate(n=count(), fastest=max_("speed")).filter(col("n") > 1).sink("fastest")
    after = changed(before, ReplaceQuery(same_state), {STREAM})
    assert set(after.graph.stateful_instances) == set(before.graph.stateful_instances)
    assert after.binding == before.binding
    assert set(changed(before, ReplaceQuery(again), {STREAM}).graph.queries) == set(before.graph.queries)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        pytest.param(
            ReplaceQuery(fastest()), "no query is named 'fastest'; there are .* add it instead", id="not there"
        ),
        pytest.param(AddQuery(GRAPH.queries[NAME]), "is declared twice", id="there already"),
        pytest.param(
            ReplaceQuery(vehicles().select("speed").sink(NAME, table="vehicle_count")),
            "must write table 'vehicle_count' with the columns that it has",
            id="other columns in the table",
        ),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(command: Any, reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        changed(position(), command, {STREAM})


def asked(run: SmallRun, *commands: Any) -> list[str]:
    letters = Letters(run.uri)
    return [letters.ask(command) for command in commands]


COMMANDS = (AddQuery(fastest()), RemoveQuery(NAME), AddQuery(fastest()), ReplaceQuery(fastest(80)))


@pytest.mark.usefixtures("small_spark")
def test_commands_by_files_do_what_commands_of_the_session_do(places: Callable[[], Path]) -> None:
    inside = SmallRun(places(), commands={2: COMMANDS})
    inside.go()
    outside = SmallRun(places())
    outside.go(until=2)
    numbers = asked(outside, *COMMANDS)
    outside.go()
    assert outside.digest() == inside.digest()
    answers = [Letters(outside.uri).answer(number) for number in numbers]
    assert [answer and answer.epoch for answer in answers] == [2, 2, None, 2]
    assert answers[2] is not None
    assert "query 'fastest' is declared twice" in answers[2].reason


@pytest.mark.usefixtures("small_spark")
def test_commands_that_come_after_the_last_input_are_refused(places: Callable[[], Path]) -> None:
    run = SmallRun(places(), epochs=2)
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
    assert Letters(run.uri).answer(number) == Answer(None, "the run has taken in all of its input and is ending")


@pytest.mark.usefixtures("small_spark")
def test_a_crash_of_a_run_at_any_moment_leaves_the_same_results_and_answers(
    places: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = SmallRun(places(), epochs=3, commands={1: COMMANDS})
    right.go()
    for operation in count_up(1):
        run = SmallRun(places(), epochs=3)
        run.go(until=1)
        numbers = asked(run, *COMMANDS)
        crashed = False
        with monkeypatch.context() as patched:
            crash_at(operation, patched)
            try:
                run.go()
            except Crash:
                crashed = True
        if not crashed:
            assert operation > 30
            break
        run.go()
        assert run.digest() == right.digest()
        answers = [Letters(run.uri).answer(number) for number in numbers]
        assert [answer and answer.epoch for answer in answers] == [1, 1, None, 1]
        Directory(hot_directory(run.uri)).clear()
