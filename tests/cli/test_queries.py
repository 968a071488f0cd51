"""`shoal queries` and `shoal graph`: what they say, and what they leave in the mailbox of a run."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.small_city import city

from shoal.cli import asking
from shoal.cli.asking import FIRST_POLL_S, LAST_POLL_S, polled
from shoal.cli.commands.queries import renamed
from shoal.cli.main import main
from shoal.errors import GraphError, ShoalError
from shoal.language.yaml.graph_file import load_graph, save_graph
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import round_robin
from shoal.runtimes.spark.driver.position import Position, changed
from shoal.runtimes.spark.rebinding import mailbox as mailbox_module
from shoal.runtimes.spark.rebinding.mailbox import FOLDER, Mailbox, MailboxClient
from shoal.runtimes.spark.state.checkpoint import Checkpoint, Manifest
from shoal.storage.directory import Directory
from shoal.workloads.traffic.queries import STREAM, vehicles

GRAPH = Graph.of(list(city().job.graph.queries.values())[:3])
FAST = vehicles().select("ts", "speed").sink("fast")
NAME = "avg_speed[0]"
PATIENCE_S = 60
"""How long to wait for what is bound to happen, before a test fails instead of hanging."""


def shoal(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["shoal", *map(str, arguments)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def committed(root: Path, graph: Graph, epoch: int = 4) -> None:
    """Write what an epoch leaves, as far as the command reads it."""
    checkpoint = Checkpoint(str(root))
    checkpoint.write_graph(graph)
    checkpoint.write_manifest(
        Manifest(epoch=epoch, graph=graph.digest, workers=2, binding=(), watermarks_us={}, states=())
    )


class Job:
    """A job that only carries out commands, one epoch per read of its mailbox.

    The next epoch does not begin while `between_epochs` is held.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.epoch, self.between_epochs = root, 4, threading.Condition()
        self.taken, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()
        self.position = Position(GRAPH, round_robin(GRAPH, 2), declared=tuple(GRAPH.queries), streams=(STREAM,))
        self._checkpoint, self._ended = Checkpoint(str(root)), threading.Event()
        committed(root, GRAPH)
        self._checkpoint.lock()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        mailbox = Mailbox(str(self.root))
        while not self._ended.wait(0.01):
            with self.between_epochs:
                self._run_epoch(mailbox, self.epoch + 1)
                self.epoch += 1
                self.between_epochs.notify_all()

    def _run_epoch(self, mailbox: Mailbox, epoch: int) -> None:
        commands = mailbox.take(epoch)
        for number, command in commands:
            try:
                self.position = changed(self.position, command, {STREAM})
            except ShoalError as error:
                mailbox.refuse(number, str(error))
        committed(self.root, self.position.graph, epoch)
        if commands:
            self.taken.set()
            assert self.may_answer.wait(PATIENCE_S)
        mailbox.reply_committed(epoch)

    def await_next_epoch(self) -> None:
        with self.between_epochs:
            wanted = self.epoch + 1
            assert self.between_epochs.wait_for(lambda: self.epoch >= wanted, PATIENCE_S)

    def end(self) -> None:
        self._ended.set()
        self.may_answer.set()
        self._thread.join()
        self._checkpoint.unlock()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    monkeypatch.setattr(mailbox_module, "POLL_INTERVAL_S", 0.0)
    running = Job(tmp_path / "run")
    yield running
    running.end()


@pytest.fixture
def fast(tmp_path: Path) -> Path:
    path = tmp_path / "fast.yaml"
    path.write_text(save_graph(Graph.of([FAST])))
    return path


def test_queries_are_listed_as_the_last_epoch_had_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counted = vehicles().partition_by("region", groups=3)
    committed(tmp_path, Graph.of([FAST, counted.deduplicate(5).sink("once", table="seldom")]))
    assert shoal(monkeypatch, "queries", "list", tmp_path) == 0
    assert capsys.readouterr().out == (
        "query  table   operators  instances  streams\n"
        "fast   fast            3          0  vehicles\n"
        "once   seldom          3          3  vehicles\n"
    )
    assert shoal(monkeypatch, "queries", "list", tmp_path, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "epoch": 4,
        "queries": [
            {"name": "fast", "streams": ["vehicles"], "table": "fast", "operators": 3, "instances": 0},
            {"name": "once", "streams": ["vehicles"], "table": "seldom", "operators": 3, "instances": 3},
        ],
        "parked": [],
    }


def test_a_query_is_added_replaced_and_removed(
    job: Job, fast: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shoal(monkeypatch, "queries", "add", job.root, fast) == 0
    assert job.position.graph.queries["fast"] == FAST
    assert shoal(monkeypatch, "queries", "add", job.root, fast, "--name", "faster") == 0
    assert job.position.graph.queries["faster"] == vehicles().select("ts", "speed").sink("faster")
    other = vehicles().filter(col("speed") > 50)
    fast.write_text(save_graph(Graph.of([other.select("ts", "speed").sink("fast")])))
    assert shoal(monkeypatch, "queries", "add", job.root, fast, "--replace") == 0
    assert "filter" in [operator.kind for operator in job.position.graph.queries["fast"].operators]
    assert shoal(monkeypatch, "queries", "remove", job.root, "fast") == 0
    assert "fast" not in job.position.graph.queries
    said = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" in epoch ")[0] for line in said] == [
        "added fast",
        "added faster",
        "replaced fast",
        "removed fast",
    ]
    assert Directory(str(job.root)).names(FOLDER) == []


def test_all_queries_of_a_target_are_added(job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(save_graph(Graph.of([renamed(FAST, "one"), renamed(FAST, "two")])))
    assert shoal(monkeypatch, "queries", "add", job.root, path) == 0
    assert list(job.position.graph.queries) == [*GRAPH.queries, "one", "two"]


def test_sql_may_read_the_streams_of_the_run(job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "fast.sql"
    path.write_text("INSERT INTO fast SELECT ts, speed FROM vehicles WHERE speed > 100")
    assert shoal(monkeypatch, "queries", "add", job.root, path) == 0
    assert job.position.graph.queries["fast"].streams == ("vehicles",)


def test_a_refusal_is_the_users_mistake_with_the_reason(
    job: Job, fast: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shoal(monkeypatch, "queries", "remove", job.root, "nobody") == 2
    assert f"refused: no query is named 'nobody'; there are {NAME}" in capsys.readouterr().err
    assert shoal(monkeypatch, "queries", "add", job.root, fast) == 0
    assert shoal(monkeypatch, "queries", "add", job.root, fast) == 2
    assert "refused: query 'fast' is declared twice" in capsys.readouterr().err


def test_a_run_that_does_not_answer_gets_its_command_withdrawn(
    job: Job, fast: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with job.between_epochs:
        assert shoal(monkeypatch, "queries", "add", job.root, fast, "--timeout", "0.2") == 1
    assert "did not reply within 0.2 s, so the command was withdrawn" in capsys.readouterr().err
    job.await_next_epoch()
    assert "fast" not in job.position.graph.queries


def withdraw_once_taken(job: Job, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Let the job hold its replies back, and the client withdraw only after the job has accepted the command."""
    withdraw = MailboxClient.withdraw

    def withdraw_late(self: MailboxClient, number: str) -> bool:
        assert job.taken.wait(PATIENCE_S)
        withdrawn = withdraw(self, number)
        then()
        return withdrawn

    job.may_answer.clear()
    monkeypatch.setattr(MailboxClient, "withdraw", withdraw_late)


def test_a_command_that_is_just_being_carried_out_is_waited_for(
    job: Job, fast: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    withdraw_once_taken(job, monkeypatch, then=job.may_answer.set)
    monkeypatch.setattr(asking, "GRACE_S", PATIENCE_S)
    assert shoal(monkeypatch, "queries", "add", job.root, fast, "--timeout", "0.2") == 0
    assert capsys.readouterr().out.startswith("added fast in epoch ")


def test_a_command_that_is_being_carried_out_is_not_waited_for_without_end(
    job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    withdraw_once_taken(job, monkeypatch, then=lambda: None)
    monkeypatch.setattr(asking, "GRACE_S", 0.1)
    assert shoal(monkeypatch, "queries", "remove", job.root, NAME, "--timeout", "0.2") == 1
    assert "is carrying out the command and has not replied yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["remove", "run", "x"], "no job is running on run; start it with --checkpoint run", id="no job"),
        pytest.param(["remove", "empty", "x"], "empty is not the checkpoint of a run that has committed", id="no run"),
        pytest.param(["list", "nowhere"], "nowhere is not the checkpoint of a run", id="no directory"),
        pytest.param(["add", "run", "nothing.yaml"], "there is no file nothing.yaml", id="no target"),
        pytest.param(
            ["add", "run", "traffic", "--name", "x"], "--name is for a target with one query", id="many names"
        ),
        pytest.param(
            ["add", "run", "fast.yaml", "--name", "a/b"], "must not begin with '.' or contain '/'", id="no name"
        ),
    ],
)
def test_a_mistake_is_one_sentence(
    arguments: list[str],
    message: str,
    fast: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    committed(tmp_path / "run", GRAPH)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert shoal(monkeypatch, "queries", *arguments) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "run" / FOLDER).exists()


def test_the_graph_of_any_target_is_written_as_yaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.yaml"
    settings = ("--set", "regions=2")
    assert shoal(monkeypatch, "graph", "traffic", *settings, "-o", path) == 0
    assert capsys.readouterr().out == ""
    assert len(load_graph(path.read_text(), "small.yaml").queries) == 6
    assert shoal(monkeypatch, "graph", path) == 0
    assert capsys.readouterr().out == path.read_text()
    assert shoal(monkeypatch, "graph", "traffic", "-o", tmp_path / "no" / "where.yaml") == 2
    assert "cannot write" in capsys.readouterr().err
    assert shoal(monkeypatch, "graph", path, *settings) == 2
    assert "--set is for workloads" in capsys.readouterr().err


def test_a_new_name_goes_to_the_table_unless_that_has_its_own() -> None:
    assert renamed(FAST, "x").table == "x"
    assert renamed(GRAPH.queries[NAME], "x").table == "avg_speed"
    with pytest.raises(GraphError, match="must not write table 'dead_letters'"):
        renamed(FAST, "dead_letters")


class Clock:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds


@pytest.mark.parametrize("timeout_s", [0.0, 0.01, 0.1, 3.0, 30.0])
def test_an_answer_is_looked_for_less_and_less_often_until_the_deadline(timeout_s: float) -> None:
    clock, polls = Clock(), list[float]()
    until_s = clock.now_s + timeout_s
    assert polled(lambda: polls.append(clock.now_s), until_s, lambda: clock.now_s, clock.pause) is None
    assert polls[0] == 100.0
    assert polls[-1] == pytest.approx(until_s)
    assert clock.pauses[:-1] == sorted(clock.pauses[:-1])
    assert max(clock.pauses, default=0.0) <= LAST_POLL_S
    assert len(polls) <= 7 + timeout_s / LAST_POLL_S


@pytest.mark.parametrize("after_s", [0.0, 0.03, 1.0, 12.0])
def test_an_answer_is_seen_soon_after_it_was_given(after_s: float) -> None:
    clock = Clock()
    given_s = clock.now_s + after_s
    found = polled(lambda: "yes" if clock.now_s >= given_s else None, 200.0, lambda: clock.now_s, clock.pause)
    assert found == "yes"
    assert clock.now_s - given_s <= min(LAST_POLL_S, FIRST_POLL_S + after_s)
