"""What every runtime must do; a new runtime is one more line in `RUNTIMES`."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.conformance.script import (
    Script,
    Step,
    add,
    do,
    drain,
    is_gone,
    pause,
    rebind,
    remove,
    stop,
    takes_part,
    until,
)
from tests.small_city import REGIONS, city, city_events, digest, result_tables

from shoal.connectors.sinks import MemorySink, ParquetSink
from shoal.errors import ConfigError
from shoal.language.python.stream import Stream
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted, Repartition
from shoal.model.control.partitioning import DECLARED, Partitioning
from shoal.model.query.aggregate import count, max_
from shoal.model.query.expression import col
from shoal.model.query.graph import InstanceId, Query
from shoal.model.query.window import hop, tumbling
from shoal.policies.binding.static import round_robin, shuffled
from shoal.runtimes.local.settings import LocalSettings
from shoal.runtimes.protocol import Capabilities
from shoal.runtimes.registry import RUNTIMES as REGISTERED
from shoal.runtimes.registry import runtime_kind
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.partitions import changed, random_changes
from shoal.session.run import Run, start
from shoal.workloads.traffic.queries import vehicles
from shoal.workloads.workload import Ready

RUNTIMES = [
    pytest.param(("spark", {}, None), marks=pytest.mark.spark, id="spark"),
    pytest.param(("local", {"policy": "round-robin", "local": LocalSettings(most_workers=8)}, 40_000.0), id="local"),
    pytest.param(("reference", {}, None), id="reference"),
    pytest.param(("simulated", {"topology": "numa:2x8"}, 40_000.0), id="simulated"),
    pytest.param(("simulated", {"topology": "spark:4x2"}, None), id="simulated Spark"),
]
"""Name, options, and the rate of streams without an end where epochs do not bound what is taken in."""


@dataclass(frozen=True)
class Launch:
    """Starts jobs on the runtime under test."""

    on: str
    options: Mapping[str, Any]
    rate: float | None

    def __call__(self, job: Job, **options: Any) -> Run:
        return start(job, on=self.on, **{**self.options, **options})

    @property
    def can(self) -> Capabilities:
        return runtime_kind(self.on).capabilities

    def endless(self) -> Ready:
        """The small city as a stream that goes on until it is drained."""
        return city(events=None, rows_per_epoch=1_500, rate=self.rate)

    def refuses_checkpoint(self, kept: Mapping[str, Any]) -> bool:
        """Whether the runtime keeps no checkpoint; then it must say so."""
        if not self.can.keeps_checkpoint:
            with pytest.raises(ConfigError, match=f"the {self.on} runtime keeps nothing for a restart"):
                self(city().job, **kept)
        return not self.can.keeps_checkpoint

    def refuses(self, *steps: Step) -> bool:
        """Whether queries cannot be changed; then every step must be refused at once."""
        if not self.can.changes_queries:
            for step in steps:
                with pytest.raises(
                    ConfigError, match=f"the {self.on} runtime cannot .* use runtime spark or reference or simulated"
                ):
                    self(self.endless().job).wait(Script(step))
        return not self.can.changes_queries


@pytest.fixture(scope="module", params=RUNTIMES)
def launch(request: pytest.FixtureRequest) -> Launch:
    on, options, rate = request.param
    return Launch(on, {**options, "spark": request.getfixturevalue("spark")} if on == "spark" else options, rate)


@pytest.fixture(scope="module")
def undisturbed(launch: Launch) -> str:
    """Digest of the small city's results when nothing happens to the run."""
    ready = city()
    run = launch(ready.job)
    run.wait()
    assert differences(result_tables(run), ready.expected(run.consumed)) == []
    return digest(run)


def fastest_of_region_1() -> Query:
    """A query that shares no state with the city's own."""
    part = vehicles().filter(col("region") == 1).key_by("vehicle_type")
    return part.window(tumbling(2)).aggregate(n=count(), fastest=max_("speed")).sink("fastest")


def complete_windows(fastest: pa.Table, first: int, last: int) -> tuple[pa.Table, pa.Table]:
    """What `fastest_of_region_1` said and should have said of the windows that began with or after an event."""
    events = pa.table(city_events().batch(first, last))
    since = events["ts"][0]
    with duckdb.connect() as database:
        database.register("events", events)
        wanted = database.sql("""
            SELECT vehicle_type::VARCHAR AS vehicle_type, count(*) AS n, max(speed) AS fastest,
                   make_timestamp((epoch_us(ts) // 2000000 + 1) * 2000000) AS window_end
            FROM events WHERE region = 1 GROUP BY ALL
        """).to_arrow_table()
        database.register("wanted", wanted)
        database.register("got", fastest)
        complete = f"window_end - INTERVAL 2 SECOND >= make_timestamp({since.value})"
        return (
            database.sql(f"SELECT * EXCLUDE query FROM got WHERE {complete}").to_arrow_table(),
            database.sql(f"SELECT * FROM wanted WHERE {complete}").to_arrow_table(),
        )


def assert_fastest_is_right(run: Run, script: Script, query: Query) -> None:
    got, wanted = complete_windows(result_tables(run)["fastest"], script.events_before(query), run.consumed)
    assert wanted.num_rows > 0
    assert differences({"fastest": got}, {"fastest": wanted}) == []


def without(tables: dict[str, pa.Table], query: str) -> dict[str, pa.Table]:
    return {name: table.filter(pc.not_equal(table["query"], query)) for name, table in tables.items()}


def test_every_registered_runtime_is_in_this_list() -> None:
    assert list(dict.fromkeys(each.values[0][0] for each in RUNTIMES)) == list(REGISTERED)  # type: ignore[index]


ALL_CASES = [(profile, seed, workers) for profile in ("W1", "W2", "W3") for seed in (0, 1, 2) for workers in (1, 2, 8)]
FEW_CASES = [("W1", 1, 1), ("W2", 2, 2), ("W3", 0, 8)]


@pytest.mark.parametrize(
    ("profile", "seed", "workers"),
    [
        pytest.param(*case, id="{} seed {} on {} workers".format(*case), marks=() if few else pytest.mark.slow)
        for case in ALL_CASES
        for few in [case in FEW_CASES]
    ],
)
def test_results_equal_the_batch_oracle(profile: str, seed: int, workers: int, launch: Launch) -> None:
    ready = city(profile, seed)
    run = launch(ready.job, workers=workers)
    tally = run.wait()
    assert (tally.events, run.consumed, tally.dead_letters) == (9_000, 9_000, 0)
    assert differences(result_tables(run), ready.expected(9_000)) == []
    assert tally.results == sum(table.num_rows for table in result_tables(run).values())


def test_events_out_of_order_within_the_lateness_change_nothing(launch: Launch) -> None:
    ready = city(disorder_s=3.0)
    run = launch(ready.job)
    tally = run.wait()
    assert tally.dead_letters == 0
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


@pytest.mark.parametrize(
    ("rows_per_epoch", "workers"),
    [
        pytest.param(1_500, 3, id="6 epochs on 3 workers"),
        pytest.param(4_123, 8, id="uneven epochs on 8 workers"),
        pytest.param(9_000, 2, id="one epoch on 2 workers"),
    ],
)
def test_no_binding_and_no_epoch_size_changes_a_result(
    rows_per_epoch: int, workers: int, launch: Launch, undisturbed: str
) -> None:
    def shuffle(run: Run, event: EpochCommitted) -> None:
        run.rebind(shuffled(run.job.graph, workers, seed=event.epoch))

    run = launch(city(rows_per_epoch=rows_per_epoch).job, workers=workers)
    tally = run.wait(shuffle)
    assert tally.moves > 0 or tally.epochs < 6
    assert digest(run) == undisturbed


def test_splits_and_merges_change_no_result(launch: Launch) -> None:
    ready, draw, partitioning = launch.endless(), random.Random(3), DECLARED
    graph, steps = ready.job.graph, list[Step]()

    def in_force(wanted: Partitioning) -> Step:
        return until(lambda event: event.snapshot.partitioning.entries == wanted.entries)

    for seed in range(2):
        changes = random_changes(graph, partitioning, draw)
        partitioning = changed(partitioning, changes, graph)
        asked = Repartition(changes)
        steps += [do(lambda run, asked=asked: run.runtime.apply(asked)), in_force(partitioning)]  # type: ignore[misc]
        steps.append(rebind(shuffled(graph, 3, seed, partitioning)))
    script = Script(*steps, *pause(2), drain)
    run = launch(ready.job, workers=3)
    run.wait(script)
    assert script.steps == []
    assert run.refused == []
    snapshots = [event.snapshot for event in script.committed]
    assert all(set(each.binding.worker_of) == set(each.partitioning.instances(graph)) for each in snapshots)
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


def test_the_number_of_workers_can_change_while_it_runs(launch: Launch) -> None:
    ready = launch.endless()
    graph = ready.job.graph

    def reached(workers: int) -> Step:
        return until(lambda event: event.snapshot.binding.workers == workers)

    script = Script(
        rebind(round_robin(graph, 8)), reached(8), rebind(round_robin(graph, 3)), reached(3), *pause(2), drain
    )
    run = launch(ready.job, workers=2)
    run.wait(script)
    used = [event.snapshot.binding.workers for event in script.committed]
    assert [workers for at, workers in enumerate(used) if workers not in used[:at]] == [2, 8, 3]
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


def test_queries_without_state_with_key_groups_and_with_shared_state_are_right_too(
    launch: Launch, tmp_path: Path
) -> None:
    counted = vehicles().partition_by("region", groups=3).window(hop(10, 1)).aggregate(vehicle_count=count())
    fast = vehicles().filter(col("speed") > 100).select("ts", "vehicle", kmh=col("speed"))
    queries = [counted.sink("one"), counted.sink("two"), fast.sink("fast")]
    ready = city(rows_per_epoch=2_000)
    job = Job.of("three", queries, ready.job.sources)
    kept: dict[str, Any] = {"checkpoint": str(tmp_path), "sink": MemorySink(), "workers": 3}
    if launch.refuses_checkpoint(kept):
        del kept["checkpoint"]
    else:
        launch(job, **kept).wait(Script(rebind(shuffled(job.graph, 3, seed=1)), stop))
    run = launch(job, **kept)
    run.wait(lambda run, event: run.rebind(shuffled(job.graph, 3, seed=event.epoch)))
    counts = ready.expected(9_000)["vehicle_count"]
    events = pa.table(city_events().batch(0, 9_000))
    rows = events.filter(pc.greater(events["speed"], 100)).select(["ts", "vehicle", "speed"])
    expected = {"one": counts, "two": counts, "fast": rows.rename_columns(["ts", "vehicle", "kmh"])}
    assert rows.num_rows > 0
    assert differences(result_tables(run), expected) == []


def test_a_run_that_is_stopped_goes_on_where_it_was(launch: Launch, undisturbed: str, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "sink": ParquetSink(str(tmp_path / "results"))}
    if launch.refuses_checkpoint(kept):
        return
    ready, script = city(rows_per_epoch=1_000), Script()
    for steps in ([stop], [*pause(1), stop], []):
        script.steps = list(steps)
        launch(ready.job, **kept).wait(script)
    assert [event.epoch for event in script.committed] == list(range(10))
    run = launch(ready.job, **kept)
    assert run.wait().epochs == 0
    assert run.consumed == 9_000
    assert digest(run) == undisturbed


def test_draining_emits_every_window(launch: Launch) -> None:
    ready = launch.endless()
    run = launch(ready.job)
    run.wait(Script(*pause(2), drain))
    assert run.consumed >= 3 * 1_500
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


def test_a_query_can_be_added_without_touching_the_others(launch: Launch) -> None:
    if launch.refuses(add(fastest_of_region_1())):
        return
    ready, query = launch.endless(), fastest_of_region_1()
    script = Script(*pause(2), add(query), until(lambda event: takes_part(query, event)), *pause(3), drain)
    run = launch(ready.job)
    run.wait(script)
    assert script.events_before(query) > 0
    assert_fastest_is_right(run, script, query)
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


def test_a_query_can_be_removed_without_touching_the_others(launch: Launch) -> None:
    if launch.refuses(remove("avg_speed[2]")):
        return
    ready, name = launch.endless(), "avg_speed[2]"
    query = ready.job.graph.queries[name]
    script = Script(*pause(2), remove(name), until(lambda event: is_gone(query, event)), *pause(1), drain)
    run = launch(ready.job)
    run.wait(script)
    expected = ready.expected(run.consumed)
    averages = expected["avg_speed"]
    others = averages.filter(pc.not_equal(averages["region"], 2))
    assert differences(without(result_tables(run), name), {**expected, "avg_speed": others}) == []
    last = run.sink.table("avg_speed").filter(pc.field("query") == name)  # type: ignore[attr-defined]
    assert 0 < last.num_rows < averages.num_rows // REGIONS


def test_a_query_that_comes_back_starts_empty(launch: Launch) -> None:
    if launch.refuses(add(fastest_of_region_1()), remove("fastest")):
        return
    ready, query = launch.endless(), fastest_of_region_1()
    here, gone = until(lambda event: takes_part(query, event)), until(lambda event: is_gone(query, event))
    again = Script(add(query), here, remove("fastest"), gone, add(query), here, *pause(3), drain)
    run = launch(ready.job)
    run.wait(again)
    assert run.refused == []
    last_gone = max(at for at, event in enumerate(again.committed) if is_gone(query, event) and event.rows)
    taken = sum(event.rows for event in again.committed[: last_gone + 1])
    got, wanted = complete_windows(result_tables(run)["fastest"], taken, run.consumed)
    assert differences({"fastest": got}, {"fastest": wanted}) == []
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


def test_a_refused_command_is_reported_and_the_run_goes_on(launch: Launch) -> None:
    ready = launch.endless()
    somewhere_else = Stream("ships", {"ts": "timestamp", "speed": "float64"}, time="ts").select("speed").sink("ships")
    unknown = Binding.of({InstanceId("nobody/0"): 0}, workers=2)
    everyone = ready.job.graph.stateful_instances
    too_few = Binding.of({everyone[0]: 0}, workers=1)
    wrong_queries = [
        (remove("avg_speed[99]"), "no query is named 'avg_speed[99]'"),
        (add(somewhere_else), "query 'ships' reads stream 'ships', which has no source in this run"),
        (add(ready.job.graph.queries["avg_speed[0]"]), "query 'avg_speed[0]' is declared twice"),
    ]
    refusals = [
        *(wrong_queries if launch.can.changes_queries else ()),
        (rebind(unknown), "the binding names instance 'nobody/0', which the graph does not have"),
        (rebind(too_few), "is bound to worker 1; there are workers 0..0"),
    ]
    run = launch(ready.job)
    run.wait(Script(*(step for step, _ in refusals), *pause(2), drain))
    assert len(run.refused) == len(refusals)
    for refused, (_, reason) in zip(run.refused, refusals, strict=True):
        assert reason in refused.reason
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


def test_queries_added_and_removed_are_remembered_after_a_restart(launch: Launch, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "sink": MemorySink()}
    if launch.refuses_checkpoint(kept):
        return
    ready, query, name = launch.endless(), fastest_of_region_1(), "vehicle_count[3]"
    removed = ready.job.graph.queries[name]
    script = Script(
        do(lambda run: run.add(query), lambda run: run.remove(name)),
        until(lambda event: takes_part(query, event) and is_gone(removed, event)),
        stop,
    )
    launch(ready.job, **kept).wait(script)
    before = len(script.committed)
    script.steps = [*pause(2), drain]
    run = launch(ready.job, **kept)
    run.wait(script)
    assert all(takes_part(query, event) and is_gone(removed, event) for event in script.committed[before:])
    assert_fastest_is_right(run, script, query)
    expected = ready.expected(run.consumed)
    counts = expected["vehicle_count"].filter(pc.field("region") != 3)
    assert differences(without(result_tables(run), name), {**expected, "vehicle_count": counts}) == []


def test_a_job_changed_between_two_runs_keeps_the_state_of_what_is_the_same(launch: Launch, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "sink": MemorySink()}
    if launch.refuses_checkpoint(kept):
        return
    ready, query = launch.endless(), fastest_of_region_1()
    script = Script(*pause(1), stop)
    launch(ready.job, **kept).wait(script)
    same = [each for each in ready.job.graph.queries.values() if each.table != "avg_speed"]
    changed = Job.of("changed", [query, *same], ready.job.sources)
    script.steps = [*pause(2), drain]
    run = launch(changed, **kept)
    run.wait(script)
    assert_fastest_is_right(run, script, query)
    expected = {name: table for name, table in ready.expected(run.consumed).items() if name != "avg_speed"}
    assert differences(result_tables(run), expected) == []
