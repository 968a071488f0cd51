"""Arrivals of a lane: what its new rows bring to the tiles of its operator, where its keys are cells."""

from collections.abc import Iterable, Mapping

from shoal.compiler.division import declared_cells
from shoal.compiler.lane import Lane
from shoal.kernels.columns.table import Ints, Tables
from shoal.kernels.spatial.tile_counts import counted
from shoal.model.control.partitioning import operator_of
from shoal.model.control.snapshot import Arrivals
from shoal.model.query.graph import OperatorId
from shoal.model.spatial.arrivals import TileArrivals, summed

NO_ARRIVALS: Arrivals = {}


def owners(lane: Lane) -> Ints | None:
    """The number of the instance that has each cell, if the lane goes by cells."""
    if lane.division is not None and lane.division.by_cell:
        numbers: Ints = lane.division.numbers[0]
        return numbers
    return declared_cells(lane)


def lane_arrivals(lane: Lane, fresh: Tables) -> Arrivals:
    """What lifted rows bring to each tile of a lane; nothing if the lane does not go by cells."""
    if lane.kernel is None or not fresh or (numbers := owners(lane)) is None:
        return NO_ARRIVALS
    placed = lane.kernel.placed(fresh)
    if placed is None:
        return NO_ARRIVALS
    return {spatial_operator(lane): tuple(counted(numbers, placed))}


def spatial_operator(lane: Lane) -> OperatorId:
    """The one operator of a lane that goes by cells."""
    return operator_of(lane.instances[0])


def merged_arrivals(several: Iterable[Arrivals]) -> Arrivals:
    """Arrivals of several periods or workers as one, tile by tile."""
    found: dict[OperatorId, list[TileArrivals]] = {}
    for one in several:
        for operator, came in one.items():
            found.setdefault(operator, []).extend(came)
    merged: Mapping[OperatorId, tuple[TileArrivals, ...]] = {id_: summed(came) for id_, came in found.items()}
    return merged
