"""Nodes in processes and on hosts: the same results, no stranger gets in, and none that dies leaves anything behind."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from tests.experiments.coordination.flow_case import listing_iii_1, ran

from shoal.cli.main import cli
from shoal.errors import ConfigError, RunError
from shoal.experiments.coordination.flow_trial import LISTEN
from shoal.experiments.coordination.wire.registration import SERVICE, Registration
from shoal.experiments.coordination.wire.token import TOKEN, known_token, new_token
from shoal.experiments.experiment import Task, TrialOutcome

SHOAL = [str(Path(sys.executable).with_name("shoal"))]
TASKS = 13
"""Tasks of the listing with one iteration: five, the loop and its seven."""


def children() -> list[psutil.Process]:
    """The nodes that run; the process of the tests may have other children, as a Spark session."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE and SERVICE in process.cmdline():
                found.append(process)
    return found


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("shoal-local", marks=pytest.mark.slow)])
def test_nodes_in_processes_have_the_results_of_nodes_in_one(engine: str, tmp_path: Path) -> None:
    file = listing_iii_1(tmp_path, loops=2)
    apart, together = ran(file, engine=engine, nodes="processes"), ran(file, engine=engine)
    assert not apart.failure
    assert apart.answers == together.answers
    assert apart.metrics["received"] == together.metrics["received"]
    assert not children()


KILLED = [(0, 1), (8, 2), (9, 3), (10, 2), (12, 3)]


@pytest.mark.parametrize(
    ("at", "node"),
    [
        pytest.param(at, node, marks=[] if (at, node) in KILLED else [pytest.mark.slow])
        for at in range(TASKS)
        for node in (1, 2, 3)
    ],
)
def test_a_node_that_is_killed_at_any_task_is_the_reason_and_leaves_nothing_behind(
    at: int, node: int, tmp_path: Path
) -> None:
    """Kill a node just before a task begins."""
    begun: list[Task] = []

    def kill(_: int, task: Task) -> None:
        begun.append(task)
        if len(begun) == at + 1:
            for process in children():
                if process.cmdline()[-2] == str(node):
                    process.kill()

    outcome = ran(listing_iii_1(tmp_path, loops=1), watch=kill, engine="duckdb", nodes="processes")
    assert len(begun) > at
    assert f"node {node}" in outcome.failure
    assert re.search("SIGKILL|gone|cannot be reached", outcome.failure)
    assert not outcome.metrics
    assert not children()


@pytest.fixture
def registration() -> Iterator[Registration]:
    found = Registration("127.0.0.1", 0, "t" * 32)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        pytest.param(
            b'{"format":1,"kind":"hello","token":"wrong","node":1}\n', "the token of .* is wrong", id="wrong token"
        ),
        pytest.param(b'{"format":1,"kind":"flush","number":1}\n', "first line of .* must be hello", id="no hello"),
        pytest.param(b"GET / HTTP/1.1\r\n", "is damaged: it must be a JSON object", id="another protocol"),
        pytest.param(b"\x80\x04\x95\n", "is damaged", id="pickle"),
        pytest.param(b'{"format":9,"kind":"hello"}\n', "has format 9; this version reads format 1", id="other version"),
        pytest.param(b"x" * 5000 + b"\n", "no message: a line of at most", id="too long"),
    ],
)
def test_whoever_has_no_token_is_told_why_and_cut_off(line: bytes, answer: str, registration: Registration) -> None:
    with socket.create_connection(registration.address) as stranger:
        stranger.sendall(line)
        with pytest.raises(RunError, match=r"nodes 1 have not registered at .*: their time is up \(refused: "):
            registration.await_nodes([1], time.monotonic() + 0.3)
        told = json.loads(stranger.makefile().readline())
    assert told["kind"] == "not-wanted"
    assert re.search(answer, told["reason"])


def test_a_node_that_nobody_waits_for_is_refused_with_those_that_are(registration: Registration) -> None:
    with socket.create_connection(registration.address) as other:
        other.sendall(b'{"format":1,"kind":"hello","token":"%s","node":7}\n' % (b"t" * 32))
        with pytest.raises(RunError, match="the flow waits for nodes 1, 2; got 7"):
            registration.await_nodes([1, 2], time.monotonic() + 0.3)


def test_a_token_is_long_and_read_by_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text(new_token())
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"must be readable by its owner only; run: chmod 600 "):
        known_token(str(file))
    file.chmod(0o600)
    assert len(known_token(str(file))) == 64
    monkeypatch.setenv(TOKEN, "short")
    with pytest.raises(ConfigError, match="at least 16 characters; got 5"):
        known_token()
    monkeypatch.delenv(TOKEN)
    with pytest.raises(ConfigError, match="need a token: give --token-file, or set SHOAL_EXPERIMENT_TOKEN"):
        known_token()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def node_commands(address: str, token: Path, directory: Path, host: str = "127.0.0.1") -> list[list[str]]:
    options = ["--connect", address, "--token-file", str(token), "--directory", str(directory), "--wait-s", "20"]
    return [[*SHOAL, "experiment", "node", "--id", str(n), "--listen", host, *options] for n in (1, 2, 3)]


@contextlib.contextmanager
def started(commands: list[list[str]]) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for command in commands]
    try:
        yield processes
    finally:
        for process in processes:
            process.terminate()
            process.wait(20)


def token_file(directory: Path) -> Path:
    path = directory / "token"
    path.write_text(new_token())
    path.chmod(0o600)
    return path


def test_nodes_that_are_started_elsewhere_register_and_do_their_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, token = listing_iii_1(tmp_path, loops=1), token_file(tmp_path)
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv(LISTEN, address)
    monkeypatch.setenv("SHOAL_EXPERIMENT_TOKEN_FILE", str(token))
    with started(node_commands(address, token, tmp_path)):
        outcome = ran(file, engine="duckdb")
    assert not outcome.failure
    assert outcome.answers == ran(file, engine="duckdb", nodes="in-process").answers


def test_a_node_without_a_coordinator_ends_with_a_reason(tmp_path: Path) -> None:
    command = node_commands(f"127.0.0.1:{free_port()}", token_file(tmp_path), tmp_path)[0][1:]
    found = CliRunner().invoke(cli, [*command[:-1], "0.3"])
    assert found.exit_code != 0
    assert "the coordinator cannot be reached at 127.0.0.1" in found.output + str(found.exception)


NETWORK = "shoal-test"


@contextlib.contextmanager
def shaped_hosts() -> Iterator[None]:
    """Three network namespaces on a bridge, each with 100 Mbit/s and 5 ms if the kernel can shape them."""
    if os.geteuid() or shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("network namespaces need root, ip and tc")

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    try:
        ip("link", "add", "shoalbr", "type", "bridge")
        ip("addr", "add", "10.213.7.254/24", "dev", "shoalbr")
        ip("link", "set", "shoalbr", "up")
        for n in (1, 2, 3):
            name = f"{NETWORK}{n}"
            ip("netns", "add", name)
            ip("link", "add", f"shoalv{n}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"shoalv{n}", "master", "shoalbr", "up")
            ip("-n", name, "addr", "add", f"10.213.7.{n}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            shape = ["tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "5ms", "rate", "100mbit"]
            # a kernel without netem has the hosts all the same, with a network that is not slowed down
            subprocess.run(["ip", "netns", "exec", name, *shape], check=False, capture_output=True)
    except subprocess.CalledProcessError as error:
        _remove_hosts()
        pytest.skip(f"network namespaces cannot be made here: {error.stderr.decode().strip()}")
    try:
        yield
    finally:
        _remove_hosts()


def _remove_hosts() -> None:
    for n in (1, 2, 3):
        subprocess.run(["ip", "netns", "del", f"{NETWORK}{n}"], check=False, capture_output=True)
    subprocess.run(["ip", "link", "del", "shoalbr"], check=False, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True])
def test_nodes_on_hosts_of_their_own(dies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, token = listing_iii_1(tmp_path, loops=1, quiet_ms=500), token_file(tmp_path)
    monkeypatch.setenv("SHOAL_EXPERIMENT_TOKEN_FILE", str(token))
    with shaped_hosts():
        address = "10.213.7.254:7411"
        monkeypatch.setenv(LISTEN, address)
        commands = [
            ["ip", "netns", "exec", f"{NETWORK}{n}", *node_commands(address, token, tmp_path, f"10.213.7.{n}")[n - 1]]
            for n in (1, 2, 3)
        ]
        found: list[TrialOutcome] = []
        with started(commands) as nodes:

            def watch(number: int, _: Task) -> None:
                if dies and number == 8:
                    nodes[1].kill()
                    nodes[1].wait(20)

            worker = threading.Thread(target=lambda: found.append(ran(file, watch=watch, engine="duckdb")))
            worker.start()
            worker.join(100)
        assert found
    if dies:
        assert "node 2" in found[0].failure
    else:
        assert found[0].answers == ran(file, engine="duckdb", nodes="in-process").answers
