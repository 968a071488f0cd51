"""Attacks on what is on disk: code in checkpoints and commands runs only if this user has signed it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.security.test_job_files import pickled_bomb

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.files import Files
from shoal.errors import CheckpointError, ConfigError, GraphError, SignatureError
from shoal.language.python.stream import Stream
from shoal.model.control.messages import AddQuery
from shoal.model.query import code as codes
from shoal.model.query.code import code_of, load
from shoal.model.query.functions import Function, Udf
from shoal.model.query.graph import Graph
from shoal.runtimes.spark.rebinding import mailbox as mailboxes
from shoal.runtimes.spark.rebinding.mailbox import REQUESTS, Add, Mailbox, MailboxClient
from shoal.runtimes.spark.state.checkpoint import GRAPHS, Checkpoint, StoredGraph, compiled, program
from shoal.runtimes.spark.state.signed_code import code_digest
from shoal.session.job import Job
from shoal.session.run import start
from shoal.storage.directory import Directory
from shoal.storage.signature import VARIABLE, is_signed, key_file, sign

CARS = Stream("cars", {"ts": "timestamp", "speed": "int64"}, time="ts")


@pytest.fixture(autouse=True)
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A key of the test's own."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state" / "key"))
    return tmp_path / "state" / "key"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it to go on as another process would, which has no functions of its own yet."""

    def fresh() -> None:
        monkeypatch.setattr(codes, "_TRUSTED", set())
        load.cache_clear()
        compiled.cache_clear()

    return fresh


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    found = Checkpoint(str(tmp_path / "run"))
    found.lock()
    yield found
    found.unlock()


def calling(code: str) -> Graph:
    """A graph with one function, by its code."""
    return Graph.of([CARS.select("ts", x=Udf("f", code, "int64", ())).sink("q")])


def good() -> Graph:
    factor = 3
    return calling(code_of(lambda: factor))


def forged(graph: Graph, signature: str = "") -> StoredGraph:
    """What an attacker writes, who can write the disk and has no key."""
    named = {name: tuple(operator.id for operator in query.operators) for name, query in graph.queries.items()}
    return StoredGraph(dict(graph.operators), named, signature)


def put(checkpoint: Checkpoint, stored: StoredGraph, digest: str) -> None:
    Directory(checkpoint.uri).write(f"graphs/{digest}", GRAPHS.encode(stored))


def test_a_signed_function_is_loaded_by_the_next_run(checkpoint: Checkpoint, elsewhere: Callable[[], None]) -> None:
    graph = good()
    checkpoint.write_graph(graph)
    elsewhere()
    assert checkpoint.graph(graph.digest) == graph
    (code,) = codes.codes_in([each.parameters for each in graph.operators.values()])
    assert load(code)() == 3


@pytest.mark.parametrize("signature", ["", "hmac-sha256:", "hmac-sha256:" + "0" * 64, "none", "hmac-sha256:é"])
def test_a_pickled_bomb_in_a_checkpoint_does_not_go_off(signature: str, checkpoint: Checkpoint, tmp_path: Path) -> None:
    graph = calling(pickled_bomb(tmp_path / "ran"))
    put(checkpoint, forged(graph, signature), graph.digest)
    with pytest.raises(SignatureError, match=r"a pickled function has .* so it is not run"):
        checkpoint.graph(graph.digest)
    with pytest.raises(SignatureError):
        program(checkpoint.uri, graph.digest)
    with pytest.raises(GraphError, match="is not trusted"):
        load(pickled_bomb(tmp_path / "ran"))
    assert not (tmp_path / "ran").exists()


def test_a_module_named_in_a_checkpoint_is_not_imported(checkpoint: Checkpoint) -> None:
    graph = calling("antigravity:fly")
    put(checkpoint, forged(graph), graph.digest)
    with pytest.raises(SignatureError, match="function 'antigravity:fly' has no signature"):
        checkpoint.graph(graph.digest)
    assert "antigravity" not in sys.modules


def test_a_signature_is_for_one_set_of_functions_only(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """The signature of a good graph does not open the door for another function beside it."""
    signed = StoredGraph.of(good())
    bomb = calling(pickled_bomb(tmp_path / "ran"))
    both = Graph.of([*good().queries.values(), bomb.queries["q"]][1:])
    put(checkpoint, forged(both, signed.signature), both.digest)
    with pytest.raises(SignatureError, match="signature by another key, or is not what was signed"):
        checkpoint.graph(both.digest)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("length", [0, 1, 20, 75])
def test_a_truncated_signature_is_none(length: int, checkpoint: Checkpoint, elsewhere: Callable[[], None]) -> None:
    stored = StoredGraph.of(good())
    put(checkpoint, replace(stored, signature=stored.signature[:length]), "0" * 16)
    elsewhere()
    with pytest.raises(SignatureError):
        checkpoint.graph("0" * 16)


def test_a_function_signed_with_another_key_is_refused_until_the_user_accepts_it(
    checkpoint: Checkpoint, elsewhere: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = good()
    checkpoint.write_graph(graph)
    elsewhere()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "other" / "key"))
    sign(b"")
    with pytest.raises(SignatureError, match=r"graphs/.* by another key.*other/key; .*--allow-pickle"):
        checkpoint.graph(graph.digest)
    accepted = Checkpoint(checkpoint.uri, allow_pickle=True)
    assert accepted.graph(graph.digest) == graph
    accepted.write_graph(graph)
    elsewhere()
    assert checkpoint.graph(graph.digest) == graph


def test_reading_never_makes_a_key(checkpoint: Checkpoint, key: Path) -> None:
    graph = calling("os:system")
    put(checkpoint, forged(graph, "hmac-sha256:" + "0" * 64), graph.digest)
    with pytest.raises(SignatureError):
        checkpoint.graph(graph.digest)
    assert not key.exists()


def test_a_graph_without_functions_needs_no_key(checkpoint: Checkpoint, key: Path) -> None:
    graph = Graph.of([CARS.sink("q")])
    checkpoint.write_graph(graph)
    assert checkpoint.graph(graph.digest) == graph
    assert not key.exists()


def test_looking_at_a_run_loads_nothing(checkpoint: Checkpoint, tmp_path: Path) -> None:
    graph = calling(pickled_bomb(tmp_path / "ran"))
    put(checkpoint, forged(graph), graph.digest)
    assert checkpoint.unverified_graph(graph.digest) == graph
    assert not (tmp_path / "ran").exists()


def test_no_code_is_signed_that_was_only_read(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match="it is not signed"):
        StoredGraph.of(calling(pickled_bomb(tmp_path / "ran")))


def test_tasks_without_a_key_load_what_their_driver_has_verified_and_nothing_else(
    checkpoint: Checkpoint, elsewhere: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, bomb = good(), calling(pickled_bomb(tmp_path / "ran"))
    checkpoint.write_graph(graph)
    told = code_digest(graph.operators.values())
    elsewhere()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none" / "key"))
    assert program(checkpoint.uri, graph.digest, told=told).graph == graph
    elsewhere()
    put(checkpoint, forged(bomb), graph.digest)
    with pytest.raises(CheckpointError):
        program(checkpoint.uri, graph.digest, told=told)
    assert not (tmp_path / "ran").exists()


def test_a_bomb_in_the_mailbox_is_refused_and_a_signed_command_is_taken(
    checkpoint: Checkpoint, elsewhere: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailboxes, "POLL_INTERVAL_S", 0.0)
    bomb = REQUESTS.encode(Add(forged(calling(pickled_bomb(tmp_path / "ran")))))
    Directory(checkpoint.uri).write("commands/00000000000000000001.json", bomb)
    (query,) = good().queries.values()
    client = MailboxClient(checkpoint.uri)
    number = client.ask(AddQuery(query))
    elsewhere()
    taken = Mailbox(checkpoint.uri).take(1)
    assert [each for each, _ in taken] == [number]
    reply = client.reply("00000000000000000001")
    assert reply is not None
    assert "has no signature, so it is not run" in reply.reason
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_not_used(mode: int, key: Path) -> None:
    sign(b"")
    key.chmod(mode)
    with pytest.raises(ConfigError, match=f"must be readable by its owner only; its mode is {mode:04o}; run chmod 600"):
        sign(b"content")


def test_a_key_is_made_for_its_owner_alone(key: Path) -> None:
    before = os.umask(0)
    try:
        signature = sign(b"content")
    finally:
        os.umask(before)
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert is_signed(b"content", signature)
    assert not is_signed(b"other content", signature)
    assert [each.name for each in key.parent.iterdir()] == ["key"]


def test_a_key_that_is_a_link_or_too_short_or_in_an_open_directory_is_not_used(key: Path, tmp_path: Path) -> None:
    sign(b"")
    (tmp_path / "theirs").write_text(key.read_text())
    (tmp_path / "theirs").chmod(0o600)
    key.unlink()
    key.symlink_to(tmp_path / "theirs")
    with pytest.raises(ConfigError, match="cannot be read"):
        sign(b"content")
    key.unlink()
    key.write_text("00" * 8)
    key.chmod(0o600)
    with pytest.raises(ConfigError, match="must hold at least 64 hexadecimal digits"):
        sign(b"content")
    key.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="must be writable by its owner only"):
        sign(b"content")


def test_two_processes_that_need_a_key_at_once_get_the_same() -> None:
    script = "from shoal.storage.signature import sign; print(sign(b'content'))"
    running = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(3)]
    assert len({process.communicate()[0] for process in running}) == 1
    assert all(process.returncode == 0 for process in running)
    assert key_file().exists()


def test_user_functions_run_on_spark_though_its_workers_have_another_key(spark: SparkSession, tmp_path: Path) -> None:
    """The workers' environment is that of the JVM, which was started before this test set its key."""
    offset = 40
    times = pa.array([1_000_000, 2_000_000], pa.timestamp("us"))
    (tmp_path / "cars").mkdir()
    pa.parquet.write_table(pa.table({"ts": times, "speed": [1, 2]}), tmp_path / "cars" / "a.parquet")
    shifted = Function("shifted", code_of(lambda speeds: speeds + offset), "int64")
    job = Job.of(
        "j", [CARS.select("ts", x=shifted("speed")).sink("q")], {"cars": Files(str(tmp_path / "cars"), follow=False)}
    )
    sink = MemorySink()
    start(job, spark=spark, checkpoint=str(tmp_path / "run"), workers=2, sink=sink).wait()
    assert sorted(sink.table("q")["x"].to_pylist()) == [41, 42]
