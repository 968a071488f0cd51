"""Profiles of local runs: the nodes of a usual run, and what they are found to cost."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.connectors.sinks import MemorySink
from shoal.errors import ConfigError
from shoal.model.control.messages import RunEnded
from shoal.policies.binding.static import round_robin
from shoal.runtimes.local.profile import profiled
from shoal.runtimes.local.runtime import LocalRuntime, LocalSetup
from shoal.runtimes.local.trace import TracedRuntime
from shoal.session.job import Job
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

EVENTS = 40_000


def job(name: str, events: int | None = EVENTS, **settings: str) -> Job:
    return workload(name).ready(0, Amount(events), settings).job


@pytest.fixture(scope="module")
def city() -> tuple[Job, dict[str, Any]]:
    chosen = job("traffic", regions="5")
    return chosen, profiled(chosen.graph, chosen.sources)


@pytest.mark.parametrize("form", ["simulator", "divided"])
def test_nodes_are_named_once_and_read_nodes_before_them(city: tuple[Job, dict[str, Any]], form: str) -> None:
    nodes = city[1][form]["nodes"]
    known: set[str] = set()
    for node in nodes:
        assert node["name"] not in known
        assert known.issuperset(node["inputs"])
        assert bool(node["inputs"]) == (node["kind"] != "source")
        known.add(node["name"])
    kinds = {node["kind"] for node in nodes}
    assert kinds == {"source", "steps", "lane", "outlet"} | ({"split"} if form == "divided" else set())


def test_every_run_reads_events_and_the_fit_of_all_turns_costs_as_much_as_they_did(
    city: tuple[Job, dict[str, Any]],
) -> None:
    found = city[1]["simulator"]
    assert {run["load"] for run in found["runs"]} == {None, 0.1, 0.4}
    assert all(run["events"] > 0 for run in found["runs"])
    errors = [run["error"] * run["cpu_s"] for run in found["runs"]]
    assert sum(errors) == pytest.approx(0, abs=0.2 * sum(run["cpu_s"] for run in found["runs"]))
    assert found["worker"]["decision_s"] > 0


def test_a_lane_has_its_operators_its_selectivity_and_a_cost(city: tuple[Job, dict[str, Any]]) -> None:
    chosen, found = city
    lanes = [node for node in found["simulator"]["nodes"] if node["kind"] == "lane"]
    operators = {operator for node in lanes for operator in node["operators"]}
    assert operators == {name for name, operator in chosen.graph.operators.items() if operator.kind == "aggregate"}
    for node in lanes:
        assert node["events_in"] > node["events_out"] > 0
        assert node["selectivity"] == node["events_out"] / node["events_in"]
        assert sum(node["cost"].values()) > 0
        assert 0 < node["merging_turns"] <= node["turns"]


def test_a_trace_changes_no_result_and_counts_all_events() -> None:
    chosen = job("ysb")
    traced, plain = MemorySink(), MemorySink()
    runtimes = [TracedRuntime(LocalSetup(chosen.sources, traced)), LocalRuntime(LocalSetup(chosen.sources, plain))]
    for runtime in runtimes:
        runtime.start(chosen.graph, round_robin(chosen.graph, 1))
        assert [event.error for event in runtime.events() if isinstance(event, RunEnded)] == [None]
    assert sorted(traced.names()) == sorted(plain.names())
    for name in traced.names():
        order = [(column, "ascending") for column in traced.table(name).schema.names]
        assert traced.table(name).sort_by(order) == plain.table(name).sort_by(order)
    recorded = runtimes[0]
    assert isinstance(recorded, TracedRuntime)
    assert all(sum(turn.events for turn in trace.turns) == trace.node.consumed for trace in recorded.traces)


def test_a_run_that_is_not_traced_has_plain_turns() -> None:
    chosen = job("ysb", 1000)
    runtime = LocalRuntime(LocalSetup(chosen.sources, MemorySink()))
    runtime.start(chosen.graph, round_robin(chosen.graph, 1))
    assert [event.error for event in runtime.events() if isinstance(event, RunEnded)] == [None]
    assert not any("turn" in vars(node) for node in runtime.nodes)


def test_reading_files_is_no_exception(tmp_path: Path) -> None:
    for number in range(3):
        times = pa.array(np.arange(5000) * 1000 + number * 5_000_000, pa.timestamp("us"))
        rows = pa.table({"ts": times, "road": np.arange(5000) % 7})
        pq.write_table(rows, tmp_path / f"{number}.parquet")
    stream = shoal.Stream("cars", {"ts": "timestamp", "road": "int64"}, time="ts")
    query = stream.key_by("road").window(shoal.tumbling(1)).aggregate(n=shoal.count()).sink("n")
    chosen = Job.of("cars", [query], {"cars": shoal.Files(str(tmp_path), follow=False)})
    found = profiled(chosen.graph, chosen.sources)["simulator"]
    assert [run["block_rows"] for run in found["runs"]] == [131_072, 8192, 1024, 128]
    source = found["nodes"][0]
    assert (source["events_in"], source["slow_turns"]["turns"]) == (4 * 15_000, 0)
    modelled_s = source["turns"] * source["cost"]["fixed_s"] + source["events_in"] * source["cost"]["event_s"]
    assert modelled_s == pytest.approx(source["cpu_s"], rel=1e-3)


def test_a_stream_without_an_end_is_refused() -> None:
    chosen = job("ysb", None)
    with pytest.raises(
        ConfigError, match="stream 'ad_events' must end to be measured; got generated events without an end"
    ):
        profiled(chosen.graph, chosen.sources)


def test_files_that_are_followed_are_refused() -> None:
    chosen = job("ysb", 10)
    sources = {"ad_events": shoal.Files("nowhere", follow=True)}
    with pytest.raises(ConfigError, match="'ad_events' must end to be measured; got files that are followed"):
        profiled(chosen.graph, sources)
