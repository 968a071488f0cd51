"""Samples of a stream: what the program did with some of its rows, and what that says about all of them."""

from collections import deque
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Feed, Lane
from shoal.connectors.sources.generator import CountedEvents
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.runtimes.simulated.input.task_plan import Counts, TaskPlan

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_COUNT = "#count"


class Samples:
    """The latest samples of one source that have enough rows together, summed up per task."""

    def __init__(self, plan: TaskPlan, source: int, enough: int) -> None:
        """No sample yet."""
        self._plan, self._stream, self._enough = plan, plan.streams[source], enough
        self._kept = deque[Counts]()
        self._events, self._results = np.zeros(plan.number), np.zeros(plan.number)
        self.rows = 0

    @property
    def missing(self) -> int:
        """The rows that are still to be sampled until there are enough."""
        return max(0, self._enough - self.rows)

    def add(self, sample: Counts) -> None:
        """Add a sample, and drop those that are no longer needed."""
        self._kept.append(sample)
        self._sum(sample, 1)
        while self.rows - self._kept[0].rows >= self._enough:
            self._sum(self._kept.popleft(), -1)

    def _sum(self, sample: Counts, sign: int) -> None:
        self._events += sign * sample.events
        self._results += sign * sample.results
        self.rows += sign * sample.rows

    def shares(self, lane: Lane) -> Floats:
        """The share of a lane's input that each instance has; rows that no instance takes are in none.

        Evenly divided if no sample had any input of the lane.
        """
        places = self._plan.places(lane)
        width = places.stop - places.start
        given = lane_input(self._plan, lane, self._stream, self.rows, self._results)
        return self._events[places] / given if given else np.full(width, 1 / width)

    def results_per_event(self, lane: Lane) -> float:
        """The results of a lane for each of its events."""
        places = self._plan.places(lane)
        return float(self._results[places].sum() / max(1.0, self._events[places].sum()))


def lane_input(plan: TaskPlan, lane: Lane, stream: str, rows: float, results: NDArray[np.generic]) -> float:
    """The rows that are offered to a lane: those of a stream if that feeds it, and the results of lanes in front."""
    origins = {feed.origin for feed in lane.feeds}
    in_front = sum(float(results[plan.places(plan.lane_of[each])].sum()) for each in origins if isinstance(each, int))
    return in_front + (rows if stream in origins else 0)


class CountedLanes:
    """The lanes whose rows per instance follow from the counts of one column of a stream."""

    def __init__(self, plan: TaskPlan, stream: str, events: CountedEvents | None) -> None:
        """Find them: every step of every feed reads that column alone."""
        self._events = events
        self._feeds: dict[int, tuple[Lane, str, tuple[Feed, ...]]] = {}
        for lane in plan.lanes if events is not None else ():
            feeds = tuple(_narrowed(feed) for feed in lane.feeds if feed.origin == stream)
            columns = {name for feed in feeds for step in feed.steps for name in step.reads()}
            of_streams = all(isinstance(feed.origin, str) for feed in lane.feeds)
            declared = lane.kernel is not None and lane.division is None
            if feeds and of_streams and declared and len(columns) == 1:
                self._feeds[lane.number] = lane, columns.pop(), feeds

    def counted(self, start: int, stop: int) -> Mapping[int, Ints]:
        """The rows of every instance, by number of the lane, among the events from one number to another."""
        found: dict[int, Ints] = {}
        blocks: dict[str, tuple[Block, dict[object, object]] | None] = {}
        for number, (lane, column, feeds) in self._feeds.items():
            if column not in blocks:
                blocks[column] = self._block(start, stop, column)
            block = blocks[column]
            if block is None:
                continue
            rows = np.zeros(len(lane.instances))
            for feed in feeds:
                _, taken = feed.prepared(*block)
                rows += np.bincount(taken.columns[INSTANCE], weights=taken.columns[_COUNT], minlength=len(rows))
            found[number] = rows.astype(np.int64)
        return found

    def _block(self, start: int, stop: int, column: str) -> tuple[Block, dict[object, object]] | None:
        counted = None if self._events is None else self._events.counted(start, stop, column)
        if counted is None:
            return None
        values, numbers = counted
        return Block({column: values, _COUNT: numbers}, len(values)), {}


def _narrowed(feed: Feed) -> Feed:
    """A feed without the steps that only drop columns."""
    steps = tuple(step for step in feed.steps if not getattr(step, "only_drops", False))
    return Feed(feed.origin, steps, feed.port)
