"""Which state is written: changes at once, the rest gradually, each for its next worker."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tests.small_city import city

from shoal.compiler.lane import Lane
from shoal.compiler.program import compile_graph
from shoal.kernels.columns.table import INSTANCE, RowTable, Tables
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.state.loading import MOVED
from shoal.runtimes.spark.state.store import StateStore
from shoal.runtimes.spark.state.writing import OLDEST_EPOCHS, StateWriter

EPOCH = 100
FRESH, OLD, OLDER = EPOCH - 1, EPOCH - OLDEST_EPOCHS - 1, EPOCH - OLDEST_EPOCHS - 9


@pytest.fixture(scope="module")
def lane() -> Lane:
    return next(lane for lane in compile_graph(city().job.graph).lanes if lane.kernel and len(lane.instances) == 4)


@dataclass
class Case:
    """Four instances of a lane: rows of each, which were touched, when each was written, who will have it."""

    rows: tuple[int, ...] = (10, 10, 10, 10)
    touched: tuple[int, ...] = ()
    origins: tuple[int, ...] = (FRESH,) * 4
    owners: tuple[int, ...] = (1,) * 4
    writer: StateWriter = field(default_factory=lambda: StateWriter(EPOCH))

    def written(self, lane: Lane) -> list[int]:
        instance = np.repeat(np.arange(4), self.rows)
        tables: Tables = {0: RowTable({INSTANCE: instance, "x": np.arange(instance.size)})} if instance.size else {}
        size = np.array(self.rows) * 16
        touched = np.isin(np.arange(4), self.touched)
        origins = dict(zip(lane.instances, self.origins, strict=True))
        return np.flatnonzero(self.writer.keep(lane, tables, size, touched, origins, self.owners)).tolist()


@pytest.mark.parametrize(
    ("case", "written"),
    [
        pytest.param(Case(), [], id="nothing that is quiet and fresh"),
        pytest.param(Case(touched=(1, 3)), [1, 3], id="what changed"),
        pytest.param(Case(origins=(FRESH, OLD, FRESH, FRESH)), [1], id="what is too old"),
        pytest.param(Case(origins=(FRESH, FRESH, MOVED, FRESH)), [2], id="what came from elsewhere"),
        pytest.param(Case(rows=(10, 0, 10, 10), touched=(1,)), [], id="nothing of an instance without state"),
        pytest.param(
            Case(origins=(OLD, OLDER, MOVED, OLD), writer=StateWriter(EPOCH, left_bytes=300)),
            [1, 2],
            id="the oldest first, as far as the budget goes",
        ),
        pytest.param(
            Case(touched=(0, 1), origins=(FRESH, FRESH, OLD, OLD), writer=StateWriter(EPOCH, left_bytes=0)),
            [0, 1],
            id="what changed even where there is no budget",
        ),
        pytest.param(
            Case(rows=(1, 90_000, 1, 1), origins=(FRESH, MOVED, OLD, OLD), writer=StateWriter(EPOCH, left_bytes=300)),
            [1],
            id="a large one alone",
        ),
    ],
)
def test_what_is_written(case: Case, written: list[int], lane: Lane) -> None:
    assert case.written(lane) == written


def test_all_lanes_share_the_budget(lane: Lane) -> None:
    writer = StateWriter(EPOCH, left_bytes=300)
    assert Case(origins=(OLD,) * 4, writer=writer).written(lane) == [0, 1]
    assert Case(origins=(OLD,) * 4, writer=writer).written(lane) == []


def test_instances_without_state_are_gone(lane: Lane) -> None:
    case = Case(rows=(0, 3, 0, 3))
    case.written(lane)
    assert case.writer.gone == [lane.instances[0], lane.instances[2]]


def test_each_worker_that_will_have_instances_gets_a_segment(lane: Lane, tmp_path: Path) -> None:
    case = Case(touched=(0, 1, 2), owners=(1, 2, 1, 2))
    case.written(lane)
    store = StateStore(str(tmp_path), hot=False)
    found: dict[int, list[InstanceId]] = {}
    for written in case.writer.write(store):
        assert (tmp_path / "state" / written.segment).stat().st_size == written.bytes
        instances = [instance for part in store.read(written.segment) for instance in part.instances]
        assert instances == list(written.instances)
        found[int(written.segment.split("-")[1])] = instances
    assert found == {1: [lane.instances[0], lane.instances[2]], 2: [lane.instances[1]]}
