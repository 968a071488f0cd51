"""Relief of a worker each of whose parts is too large for the cheapest worker to take in addition: an exchange.

A reduction never makes its target costlier than its source was. So a worker with a single rectangle of two dense cells
keeps both if all others cost about the same, and a run is as fast as that worker. An exchange gives one of them to the
cheapest worker all the same, which in turn gives its other rectangles to the next cheapest ones.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import get_args

from shoal.model.control.partitioning import Cut
from shoal.model.spatial.tiles import Axis
from shoal.policies.partitioning.swarm.plane import Plane, PlanePartition
from shoal.policies.partitioning.swarm.reduction import LEAST_GAIN, Reduction, reduced, reductions, searched


def relieving(plane: Plane, most: int, uneven: float = 0.0) -> tuple[Reduction, ...]:
    """Reductions as `reductions` finds them, or an exchange if that leaves the costliest worker with less.

    An exchange takes several reductions, so that there is none where a round makes only one.
    """
    found = reductions(plane, most, uneven)
    costs, left = plane.costs, max(_after(plane, found).costs)
    balanced = max(costs) <= (1 + uneven) * sum(costs) / plane.workers
    if most == 1 or balanced or left <= (1 - LEAST_GAIN) * max(costs):
        return found
    exchanged = _exchange(plane, most, uneven)
    return exchanged if max(_after(plane, exchanged).costs) <= (1 - LEAST_GAIN) * left else found


def _after(plane: Plane, changes: Sequence[Reduction]) -> Plane:
    for each in changes:
        plane, _ = reduced(plane, each)
    return plane


def _exchange(plane: Plane, most: int, uneven: float) -> tuple[Reduction, ...]:
    """The costliest worker gives about half of what it has to the cheapest, and reductions follow."""
    source = max(range(plane.workers), key=lambda worker: (plane.costs[worker], -worker))
    target = min(range(plane.workers), key=lambda worker: (plane.costs[worker], worker))
    parts = sorted(_parts(plane, source, target), key=lambda each: max(each.after[0], each.before[0] - each.after[0]))
    if not parts or parts[0].after[0] > (1 - LEAST_GAIN) * parts[0].before[0]:
        return ()
    ahead, _ = reduced(plane, parts[0])
    return (parts[0], *reductions(ahead, most - 1, uneven))


def _parts(plane: Plane, source: int, target: int) -> Iterator[Reduction]:
    """What a worker can give: each of its partitions, and a part of the costliest, cut in the middle of its cost."""
    before = plane.costs[source], plane.costs[target]
    ours = plane.of_worker(source)
    for each in ours:
        given = plane.cost_of(each)
        yield Reduction("move", source, target, (each.instance,), before, (before[0] - given, before[1] + given))
    tile, axes = ours[0].statistics.tile, get_args(Axis)
    for axis, line in zip(axes, (tile.left, tile.top), strict=True):
        size = ours[0].statistics.of(axis).size
        if size > 1:
            at = searched(1, size - 1, _falling(plane, ours[0], axis))
            given = plane.costs_of_parts(ours[0], axis, at)[1]
            cut = Cut(ours[0].instance, axis, line + at)
            after = before[0] - given, before[1] + given
            yield Reduction("split", source, target, (ours[0].instance,), before, after, cut)


def _falling(plane: Plane, partition: PlanePartition, axis: Axis) -> Callable[[int], float]:
    """How much more the second part of a partition costs, by where that begins."""

    def difference(at: int) -> float:
        first, second = plane.costs_of_parts(partition, axis, at)
        return second - first

    return difference
