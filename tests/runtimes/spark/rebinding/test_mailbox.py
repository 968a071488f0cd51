"""The mailbox of a run: commands by files, carried out once each, whatever crashes in between."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as count_up
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtimes.spark.crashing import Crash, crash_at
from tests.runtimes.spark.small_spark import roots, small_spark
from tests.small_city import city

from shoal.compiler.program import compile_graph
from shoal.errors import CheckpointError, GraphError
from shoal.model.control.messages import AddQuery, RemoveQuery, Repartition, ReplaceQuery
from shoal.model.control.partitioning import Merge, Regroup, Split
from shoal.model.query.aggregate import count, max_
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph, InstanceId, Operator, OperatorId, Query
from shoal.model.query.window import tumbling
from shoal.policies.binding.static import round_robin
from shoal.runtimes.spark.driver.position import Position, changed
from shoal.runtimes.spark.driver.restore import desired
from shoal.runtimes.spark.rebinding import mailbox as mailbox_module
from shoal.runtimes.spark.rebinding.commands import Commands
from shoal.runtimes.spark.rebinding.mailbox import (
    FOLDER,
    REJECTED,
    REQUESTS,
    CommandReply,
    Mailbox,
    MailboxClient,
    command_of,
    request,
)
from shoal.runtimes.spark.rebinding.migration import Limits
from shoal.storage.directory import Directory
from shoal.storage.record import sealed, unsealed
from shoal.workloads.traffic.queries import STREAM, vehicles

__all__ = ["roots", "small_spark"]
GRAPH = city().job.graph
NAME = "vehicle_count[1]"


@pytest.fixture(autouse=True)
def poll_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "POLL_INTERVAL_S", 0.0)


def fastest(limit: int = 0) -> Query:
    part = vehicles().filter(col("speed") >= limit).key_by("vehicle_type").window(tumbling(2))
    return part.aggregate(n=count(), fastest=max_("speed")).sink("fastest")


def left(root: Path) -> list[str]:
    return sorted(path.name for path in (root / FOLDER).glob("*") if path.is_file())


def rejected(root: Path) -> list[str]:
    return sorted(path.name for path in (root / REJECTED).glob("*"))


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


def test_a_command_is_taken_up_once_and_gets_its_reply_when_its_epoch_is_committed(tmp_path: Path) -> None:
    client, mailbox = MailboxClient(str(tmp_path)), Mailbox(str(tmp_path))
    assert mailbox.take(3) == []
    first, second = client.ask(RemoveQuery("a")), client.ask(RemoveQuery("b"))
    assert mailbox.take(3) == [(first, RemoveQuery("a")), (second, RemoveQuery("b"))]
    assert mailbox.take(4) == []
    mailbox.reply_committed(2)
    assert client.reply(first) is None
    mailbox.refuse(second, "no query is named 'b'")
    mailbox.reply_committed(3)
    assert (client.reply(first), client.reply(second)) == (CommandReply(3), CommandReply(None, "no query is named 'b'"))
    assert left(tmp_path) == []


def test_what_cannot_be_understood_is_refused_at_once_and_set_aside(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    mailbox = Mailbox(str(tmp_path), lambda file, reason: told.append((file, reason)))
    client = MailboxClient(str(tmp_path))
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
    replies = [client.reply(str(number)) for number in range(len(asked))]
    where = f"command {tmp_path}/{FOLDER}"
    assert [reply.reason for reply in replies if reply] == [
        f"{where}/0.json is damaged: its checksum does not match; ask for it again",
        (
            f"{where}/1.json is damaged: field kind must be add, replace, remove, split, merge, regroup, cut, retile; "
            "got 'dance'; ask for it again"
        ),
        "a command must have one query; got 0",
        f"{where}/3.json is damaged: field name is missing; ask for it again",
        f"{where}/4.json has format 1; this version reads format 2",
    ]
    assert left(tmp_path) == []
    assert rejected(tmp_path) == sorted(f"{n}.json{end}" for n in range(len(asked)) for end in ("", ".reason"))
    assert (tmp_path / REJECTED / "0.json").read_bytes() == b"nonsense"
    assert told == [(f"{FOLDER}/{n}.json", reply.reason) for n, reply in enumerate(replies) if reply]
    assert (tmp_path / REJECTED / "2.json.reason").read_text() == "a command must have one query; got 0\n"


def test_a_damaged_reply_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    Directory(str(tmp_path)).write(f"{FOLDER}/1.answer", sealed(b'{"format":2,"kind":"answer","epoch":"3"}'))
    with pytest.raises(
        CheckpointError, match=r"reply .*/1.answer is damaged: field epoch must be int \| null; got str"
    ):
        MailboxClient(str(tmp_path)).reply("1")


def test_a_command_that_is_withdrawn_is_not_taken_up(tmp_path: Path) -> None:
    client, mailbox = MailboxClient(str(tmp_path)), Mailbox(str(tmp_path))
    number = client.ask(RemoveQuery("a"))
    assert client.withdraw(number)
    assert mailbox.take(0) == []


def test_a_command_that_is_withdrawn_while_it_is_taken_up_is_not_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, mailbox = MailboxClient(str(tmp_path)), Mailbox(str(tmp_path))
    number, write = client.ask(RemoveQuery("a")), Directory.write

    def write_late(self: Directory, name: str, content: bytes) -> None:
        if name.endswith(".taken"):
            assert client.withdraw(number)
        write(self, name, content)

    monkeypatch.setattr(Directory, "write", write_late)
    assert mailbox.take(0) == []
    assert left(tmp_path) == []


def test_a_command_that_was_taken_up_cannot_be_withdrawn(tmp_path: Path) -> None:
    client, mailbox = MailboxClient(str(tmp_path)), Mailbox(str(tmp_path))
    number = client.ask(RemoveQuery("a"))
    assert len(mailbox.take(0)) == 1
    assert not client.withdraw(number)
    mailbox.reply_committed(0)
    assert client.reply(number) == CommandReply(0)


def test_a_run_polls_no_more_often_than_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "POLL_INTERVAL_S", 60.0)
    client, mailbox = MailboxClient(str(tmp_path)), Mailbox(str(tmp_path))
    assert mailbox.take(0) == []
    client.ask(RemoveQuery("a"))
    assert mailbox.take(1) == []
    assert len(mailbox.take(2, at_once=True)) == 1


def test_unfetched_replies_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "KEPT_REPLIES", 3)
    client, mailbox = MailboxClient(str(tmp_path)), Mailbox(str(tmp_path))
    for epoch in range(6):
        client.ask(RemoveQuery("a"))
        mailbox.take(epoch)
        mailbox.reply_committed(epoch)
    assert len(left(tmp_path)) == 3


def test_a_damaged_mark_is_set_aside_with_its_command(tmp_path: Path) -> None:
    client, mailbox = MailboxClient(str(tmp_path)), Mailbox(str(tmp_path))
    number = client.ask(RemoveQuery("a"))
    Directory(str(tmp_path)).write(f"{FOLDER}/{number}.taken", b"nonsense")
    mailbox.recover(0, planned=False)
    assert mailbox.take(1) == []
    reply = client.reply(number)
    assert reply is not None
    assert reply.epoch is None
    assert reply.reason.endswith("whether the command was applied is unknown, list the run's queries to see")
    assert left(tmp_path) == []


GOOD = REQUESTS.encode(request(AddQuery(fastest())))
FILES = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=200).map(sealed),
    st.integers(0, len(GOOD)).map(lambda length: GOOD[:length]),
    st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)).map(
        lambda change: GOOD[: change[0]] + bytes([change[1]]) + GOOD[change[0] + 1 :]
    ),
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["filter", "sink", "source"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
        max_leaves=8,
    ).map(lambda value: sealed(json.dumps({"format": 2, "kind": "add", "graph": value}).encode())),
    st.tuples(st.sampled_from(sorted(json.loads(unsealed(GOOD))["graph"]["operators"])), st.text(max_size=5)).map(
        lambda change: with_parameters(*change)
    ),
    st.sampled_from([request(RemoveQuery("no such")), request(Repartition((Split(InstanceId("no/1")),)))]).map(
        REQUESTS.encode
    ),
)
"""Files that somebody may leave in a mailbox: noise, damaged commands, and commands that make no sense."""


def with_parameters(operator: str, name: str) -> bytes:
    """A command whose operators have the right ids and other parameters than their kind needs."""
    found: Any = json.loads(unsealed(GOOD))
    ids: dict[str, str] = {}
    operators = {}
    for id_, each in found["graph"]["operators"].items():
        parameters = {name: 1} if id_ == operator else each["parameters"]
        made = Operator(each["kind"], parameters, tuple(OperatorId(ids[i]) for i in each["inputs"]))
        ids[id_] = made.id
        operators[made.id] = {"kind": made.kind, "parameters": parameters, "inputs": list(made.inputs)}
    queries = {query: [ids[i] for i in of] for query, of in found["graph"]["queries"].items()}
    return sealed(json.dumps({**found, "graph": {"operators": operators, "queries": queries}}).encode())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([".json", ".json", ".taken"]), FILES), min_size=1, max_size=4))
def test_no_file_in_the_mailbox_stops_a_run_or_its_restart(files: list[tuple[str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as root, without_pauses():
        box = Mailbox(root)
        for number, (ending, content) in enumerate(files):
            Directory(root).write(f"{FOLDER}/{number:020d}{ending}", content)
        box.recover(3, planned=False)
        commands = Commands(box, {STREAM}, lambda _command, reason: pytest.fail(reason))
        after = commands.carried_out(4, position(), Limits(1 << 30))
        compile_graph(after.graph, after.partitioning)
        added = set(after.graph.queries) - set(GRAPH.queries)
        assert added <= {"fastest"}
        box.reply_committed(4)
        assert [name for name in left(Path(root)) if not name.endswith(".answer")] == []
        names = {name.removesuffix(".reason") for name in rejected(Path(root))}
        assert len(names) >= len({n for n, (end, _) in enumerate(files) if end == ".json"}) - (1 if added else 0)


@contextmanager
def without_pauses() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mailbox_module, "POLL_INTERVAL_S", 0.0)
        yield


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
            mailbox.reply_committed(epoch)


def test_a_crash_at_any_moment_neither_loses_nor_repeats_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for operation in count_up(1):
        play = Play(tmp_path / str(operation))
        play.go(1)
        client = MailboxClient(str(play.root))
        numbers = [client.ask(RemoveQuery(name)) for name in ("a", "b", "a", "c")]
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
        replies = [client.reply(number) for number in numbers]
        assert [reply is not None and reply.epoch is not None for reply in replies] == [True, True, False, True]
        accepted = [reply.epoch for reply in replies if reply and reply.epoch is not None]
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
