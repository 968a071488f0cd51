"""Reports: the loads of instances and workers add up to the totals, with any binding."""

from collections import Counter
from itertools import pairwise

import pytest
from tests.runtimes.local import witness
from tests.runtimes.local.nudged import Nudged

from shoal.model.control.messages import EpochCommitted, Rebind
from shoal.model.control.snapshot import InstanceLoad
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.static import shuffled
from shoal.runtimes.local.memory.blocks import Sizes
from shoal.runtimes.local.scheduling.bound_pool import QUEUES

ROWS = 2_000


def shuffle(nudged: Nudged) -> None:
    if nudged.draw.random() < 0.2:
        nudged.runtime.apply(Rebind(shuffled(nudged.graph, nudged.workers, nudged.draw.randrange(1 << 30))))


def rest(nudged: Nudged) -> None:
    pass


@pytest.fixture(scope="module", params=[*QUEUES, "worker-queue with moves"])
def finished(request: pytest.FixtureRequest) -> Nudged:
    design, _, moves = request.param.partition(" ")
    options = {"queues": design, "sizes": Sizes(64, 2, 2)}
    return Nudged(witness.graph(), witness.numbered(ROWS), 2, shuffle if moves else rest, options=options).run()


def summed(reports: list[EpochCommitted], name: str) -> Counter[InstanceId]:
    total: Counter[InstanceId] = Counter()
    for report in reports:
        total.update({instance: getattr(load, name) for instance, load in report.snapshot.loads.items()})
    return total


def test_loads_of_all_reports_add_up_to_what_happened(finished: Nudged) -> None:
    finished.assert_right()
    loads = [report.snapshot.loads for report in finished.reports]
    assert all(set(each) == set(finished.graph.stateful_instances) for each in loads)
    pairs = sum(row["met"] for row in finished.results()["met"])
    assert sum(summed(finished.reports, "events").values()) == 3 * ROWS + pairs
    results = sum(len(rows) for rows in finished.results().values())
    assert sum(summed(finished.reports, "results").values()) == pairs + results
    spent_s = sum(sum(report.snapshot.busy_s) for report in finished.reports)
    assert 0 < sum(summed(finished.reports, "cost_s").values()) < spent_s


def test_nothing_waits_in_the_end_and_never_less_than_nothing(finished: Nudged) -> None:
    backlogs = [load.backlog for report in finished.reports for load in report.snapshot.loads.values()]
    assert min(backlogs) >= 0
    assert {load.backlog for load in finished.reports[-1].snapshot.loads.values()} == {0}


def test_the_state_of_all_instances_is_that_of_the_run(finished: Nudged) -> None:
    for report in finished.reports:
        of_instances = sum(load.state_bytes for load in report.snapshot.loads.values())
        assert of_instances <= report.state_bytes
        on_its_way = report.moves > 0  # what moves is with no instance until it has arrived
        assert of_instances > 0.9 * report.state_bytes - len(report.snapshot.loads) or not of_instances or on_its_way


def test_time_is_divided_into_periods_and_workers(finished: Nudged) -> None:
    reports = finished.reports
    assert all(report.snapshot.period_s == report.duration_s > 0 for report in reports)
    assert all(len(report.snapshot.busy_s) == 2 for report in reports)
    assert all(report.snapshot.topology is not None for report in reports)
    spent_s = sum(sum(report.snapshot.busy_s) for report in reports)
    assert sum(report.compute_s + report.migration_s for report in reports) == pytest.approx(spent_s)


def test_no_worker_runs_instances_of_another_so_that_moves_pay_under_any_load(finished: Nudged) -> None:
    assert not any(report.snapshot.topology.shared for report in finished.reports if report.snapshot.topology)


def test_moves_take_time_and_others_take_none(finished: Nudged) -> None:
    moves, moved_s = (sum(getattr(report, name) for report in finished.reports) for name in ("moves", "migration_s"))
    assert (moves > 0) == (finished.nudge is shuffle)
    assert (moved_s > 0) == (moves > 0)


def test_latency_is_reported_for_the_tables_that_had_rows(finished: Nudged) -> None:
    reported: Counter[str] = Counter()
    for report in finished.reports:
        latency_s = report.snapshot.latency_s
        assert bool(latency_s) == bool(report.results)
        assert all(0 <= each < 60 for each in latency_s.values())
        reported.update(latency_s.keys())
    assert set(reported) == {"met", "alone"}


def test_watermarks_go_on(finished: Nudged) -> None:
    marks = [report.snapshot.watermarks_us for report in finished.reports]
    assert marks[-1] == dict.fromkeys(("left", "right"), (ROWS - 1) * 1000)
    for before, after in pairwise(marks):
        assert all(after[stream] >= mark for stream, mark in before.items())


def test_without_bound_instances_there_are_no_loads() -> None:
    nudged = Nudged(witness.graph(), witness.numbered(500), 2, rest, options={"queues": None}).run()
    nudged.assert_right()
    assert all(report.snapshot.loads == {} for report in nudged.reports)
    assert all(len(report.snapshot.busy_s) == 2 for report in nudged.reports)


def test_an_instance_that_has_done_nothing_has_a_load_of_nothing() -> None:
    rows = {stream: [{"ts": 0, "k": 0, "n": 0}] for stream in ("left", "right")}
    nudged = Nudged(witness.graph(), rows, 2, rest).run()
    idle = [i for i, events in summed(nudged.reports, "events").items() if not events]
    assert len(idle) == len(nudged.graph.stateful_instances) - 3
    assert {report.snapshot.loads[i] for report in nudged.reports for i in idle} == {InstanceLoad(0, 0.0, 0, 0, 0)}
