import numpy as np
import pyarrow as pa
import pytest

from shoal.errors import CheckpointError
from shoal.kernels.aggregate.panes import PaneTable
from shoal.kernels.columns.table import INSTANCE, RowTable
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.state.segment import SegmentPart, chosen, decode, encode

NAMES = (InstanceId("a/0"), InstanceId("b/0"))


def part(rows: int = 4, instances: tuple[InstanceId, ...] = NAMES) -> SegmentPart:
    numbers = np.arange(rows)
    table = PaneTable(
        instance=numbers % len(instances),
        pane=numbers + 100,
        keys=(numbers * 10, pa.array([f"key {n}" for n in range(rows)])),
        slots=(numbers + 1, np.linspace(0, 1, rows), np.arange(3 * rows, dtype=np.float64).reshape(rows, 3)),
    )
    return SegmentPart(instances, 0, table)


def rows_of_a_join() -> RowTable:
    return RowTable({INSTANCE: np.array([0, 1, 1]), "#time": np.arange(3), "name": pa.array(["a", "b", "c"])})


def plain(parts: list[SegmentPart]) -> list[object]:
    return [(each.instances, each.table, each.content.to_arrow().to_pydict()) for each in parts]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([part(), part(1, (InstanceId("c/0"),))], id="two lanes"),
        pytest.param([part(0)], id="a lane without rows"),
        pytest.param([part(), SegmentPart(NAMES, 1, rows_of_a_join())], id="two tables of one lane"),
        pytest.param([], id="nothing"),
    ],
)
def test_a_segment_gives_back_what_was_written(parts: list[SegmentPart]) -> None:
    assert plain(decode(encode(parts), "here")) == plain(parts)


def test_every_damaged_byte_is_found() -> None:
    content = encode([part(), part(1, (InstanceId("c/0"),))])
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x20
        with pytest.raises(CheckpointError, match="state file some/where is damaged"):
            decode(bytes(damaged), "some/where")


def test_every_truncation_is_found() -> None:
    content = encode([part()])
    for size in range(len(content)):
        with pytest.raises(CheckpointError, match="state file some/where is damaged or incomplete"):
            decode(content[:size], "some/where")


def test_instances_are_taken_over_under_their_new_numbers() -> None:
    taken = chosen(part(), {InstanceId("b/0"): 7})
    assert isinstance(taken, PaneTable)
    assert taken.instance.tolist() == [7, 7]
    assert taken.pane.tolist() == [101, 103]
    assert taken.slots[0].tolist() == [2, 4]
