"""Reduction: what a costly worker gives to the cheapest one, some of its partitions or a part of one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from shoal.model.control.partitioning import Cut
from shoal.model.query.graph import InstanceId
from shoal.model.spatial.tiles import Axis
from shoal.policies.partitioning.swarm.plane import Plane, PlanePartition

LEAST_GAIN = 0.05
"""The least share of its cost that a worker must lose."""


@dataclass(frozen=True)
class Reduction:
    """What goes from a source to a target, and the costs of both before and, as predicted, after.

    `instances`: those that move, or the one that is cut. `cut`: how; its new part is at the target.
    """

    kind: Literal["move", "split"]
    source: int
    target: int
    instances: tuple[InstanceId, ...]
    before: tuple[float, float]
    after: tuple[float, float]
    cut: Cut | None = None


def reduction(plane: Plane) -> Reduction | None:
    """What the costliest worker that can give something gives to the cheapest; None if nothing lowers any cost."""
    costs = plane.costs
    target = min(range(plane.workers), key=lambda worker: (costs[worker], worker))
    for source in sorted(range(plane.workers), key=lambda worker: (-costs[worker], worker)):
        if costs[source] <= costs[target]:
            return None
        found = _subset(plane, source, target) or _split(plane, source, target)
        if found is not None:
            return found
    return None


def reductions(plane: Plane, most: int, uneven: float = 0.0) -> tuple[Reduction, ...]:
    """Reductions one after another, each of what the one before has left; at most so many.

    There are no more once no worker costs more than the mean by a larger share than `uneven`.
    """
    found = list[Reduction]()
    while len(found) < most and max(plane.costs) > (1 + uneven) * sum(plane.costs) / plane.workers:
        each = reduction(plane)
        if each is None:
            break
        plane, _ = reduced(plane, each)
        found.append(each)
    return tuple(found)


def reduced(plane: Plane, change: Reduction) -> tuple[Plane, tuple[InstanceId, ...]]:
    """The plane after a reduction, and the instances that have gone to its target."""
    if change.cut is None:
        return plane.moved(change.instances, change.target), change.instances
    after, new = plane.cut(change.cut, change.target)
    return after, (new,)


def _subset(plane: Plane, source: int, target: int) -> Reduction | None:
    """Whole partitions, the costliest first, that do not make the target costlier than the source."""
    before = plane.costs[source], plane.costs[target]
    ours = plane.of_worker(source)
    costs = [plane.cost_of(each) for each in ours]
    chosen = subset(costs, (before[0] - before[1]) / 2)
    total = sum(costs[place] for place in chosen)
    if total < LEAST_GAIN * before[0]:
        return None
    instances = tuple(ours[place].instance for place in chosen)
    return Reduction("move", source, target, instances, before, (before[0] - total, before[1] + total))


def subset(costs: Sequence[float], most: float) -> list[int]:
    """The places of costs, given from large to small, whose sum is at most a limit; at least half of the best sum.

    >>> subset([5.0, 4.0, 3.0, 2.0], 9.5)
    [0, 1]
    """
    total, chosen = 0.0, list[int]()
    for place, cost in enumerate(costs):
        if cost > 0 and total + cost <= most:
            total += cost
            chosen.append(place)
    return chosen


def _split(plane: Plane, source: int, target: int) -> Reduction | None:
    """A part of the costliest partition that can be cut to advantage: four searches, by axis and by which part goes."""
    before = plane.costs[source], plane.costs[target]
    for partition in plane.of_worker(source):
        cuts = [
            (*_best_cut(plane, partition, axis, before, gives_first=gives_first), axis, gives_first)
            for axis in ("row", "column")
            for gives_first in (True, False)
            if partition.statistics.of(axis).size > 1
        ]
        if not cuts:
            continue  # a single cell
        difference, at, after, axis, gives_first = min(cuts, key=lambda each: each[0])
        if difference < before[0] - before[1] and max(after) <= (1 - LEAST_GAIN) * before[0]:
            tile = partition.statistics.tile
            line = at + (tile.top if axis == "row" else tile.left)
            cut = Cut(partition.instance, axis, line, keeps_last=gives_first)  # type: ignore[arg-type]
            return Reduction("split", source, target, (partition.instance,), before, after, cut)
    return None


def _best_cut(
    plane: Plane, partition: PlanePartition, axis: Axis, before: tuple[float, float], *, gives_first: bool
) -> tuple[float, int, tuple[float, float]]:
    """The smallest difference of both costs after a cut along an axis, where it is, and the costs."""
    others = before[0] - plane.cost_of(partition)

    def costs(at: int) -> tuple[float, float]:
        parts = plane.costs_of_parts(partition, axis, at)
        given, kept = parts if gives_first else (parts[1], parts[0])
        return others + kept, before[1] + given

    at = searched(
        1, partition.statistics.of(axis).size - 1, lambda at: _difference(costs(at)) * (1 if gives_first else -1)
    )
    return abs(_difference(costs(at))), at, costs(at)


def _difference(costs: tuple[float, float]) -> float:
    return costs[0] - costs[1]


def searched(first: int, last: int, falling: Callable[[int], float]) -> int:
    """Where a function that never rises is nearest to 0, between two places; by binary search.

    >>> searched(1, 9, lambda at: 10 - 3 * at)
    3
    """
    best, nearest = first, float("inf")
    while first <= last:
        middle = (first + last) // 2
        value = falling(middle)
        if abs(value) < nearest:
            best, nearest = middle, abs(value)
        if value == 0:
            break
        first, last = (middle + 1, last) if value > 0 else (first, middle - 1)
    return best
