"""Nodes of the local runtime run steps of streams as compiled loops, with the same results."""

from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from shoal.compiler.codegen import generated
from shoal.compiler.codegen.fused import FusedSteps
from shoal.connectors.sinks import MemorySink
from shoal.model.control.messages import RunEnded
from shoal.policies.binding.static import round_robin
from shoal.runtimes.local.dataflow.node import StepNode
from shoal.runtimes.local.memory.blocks import Sizes
from shoal.runtimes.local.runtime import LocalRuntime, LocalSetup
from shoal.session.digest import differences
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

EVENTS = 40_000


def run(name: str, **settings: Any) -> tuple[list[int], list[str]]:
    """How many loops each node with steps has, after a run with the right results, and the messages before it."""
    ready = workload(name).ready(3, Amount(EVENTS), {})
    sink, said = MemorySink(), list[str]()
    runtime = LocalRuntime(LocalSetup(ready.job.sources, sink, say=said.append, **settings))
    runtime.start(ready.job.graph, round_robin(ready.job.graph, 2))
    *_, ended = runtime.events()
    assert ended == RunEnded(None, at_s=ANY)
    assert differences({table: sink.table(table) for table in sink.names()}, ready.expected(EVENTS)) == []
    steps = [node for node in runtime.nodes if isinstance(node, StepNode)]
    return [sum(isinstance(step, FusedSteps) for step in node._running) for node in steps], said


@pytest.mark.parametrize(
    ("name", "loops"),
    [
        pytest.param("ysb", [1], id="one chain"),
        pytest.param("nyt", [1], id="texts"),
        pytest.param("linear-road", [1, 1, 1], id="steps that two lanes share"),
    ],
)
@pytest.mark.parametrize("memory", ["block", "queue"])
def test_steps_of_streams_are_loops_in_the_usual_case(name: str, loops: list[int], memory: str) -> None:
    got, _ = run(name, sizes=Sizes(block_rows=5000, memory=memory))
    assert got[: len(loops)] == loops
    assert sum(got) == sum(loops)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"fused": False}, id="unless that is not wanted"),
        pytest.param({"chained": False}, id="unless each step is to be a node"),
    ],
)
def test_steps_can_be_left_as_they_are(settings: dict[str, Any]) -> None:
    loops, said = run("ysb", **settings)
    assert not any(loops)
    assert said == []


def test_a_run_says_that_it_compiles_only_when_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(generated, "_LOADED", generated.Loaded())
    assert run("ysb")[1] == ["compiling 1 chain ..."]
    assert run("ysb")[1] == []
