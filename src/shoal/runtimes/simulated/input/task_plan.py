"""Task plans: the tasks of a program, and what they are bound with.

A task is a stream's source, an instance of a lane with state, or a lane without state. Units that policies bind come
first, one per instance; then those of lanes without state, then those of sources. With `feeds_apart`, the steps from a
stream to a lane with state are a task of the source's unit, as they are nodes of its worker on the local runtime.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Lane, Outlet
from shoal.compiler.program import Program
from shoal.kernels.columns.effort import Effort
from shoal.model.control.binding import Binding
from shoal.model.query.graph import InstanceId

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
VALUE_BYTES = 8
"""Assumed size of a value of a row."""


@dataclass(frozen=True, eq=False)
class TaskPlan:
    """The tasks of a program, sources first, then lane by lane."""

    program: Program
    feeds_apart: bool = False

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The streams, in the order of their sources."""
        return tuple(self.program.inputs)

    @cached_property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes, in the order of their tasks."""
        return tuple(sorted(self.program.lanes, key=lambda lane: (lane.depth, lane.number)))

    @cached_property
    def lane_of(self) -> dict[int, Lane]:
        """The lanes by their numbers."""
        return {lane.number: lane for lane in self.lanes}

    @cached_property
    def first(self) -> dict[int, int]:
        """The first task of every lane, by its number."""
        found, at = {}, len(self.streams)
        for lane in self.lanes:
            found[lane.number] = at
            at += self.width(lane)
        return found

    @staticmethod
    def width(lane: Lane) -> int:
        """Number of tasks of a lane."""
        return len(lane.instances) if lane.kernel is not None else 1

    def places(self, lane: Lane) -> slice:
        """The tasks of a lane."""
        return slice(self.first[lane.number], self.first[lane.number] + self.width(lane))

    @cached_property
    def feeds(self) -> tuple[tuple[str, Lane], ...]:
        """The streams and lanes with state between which the steps are a task; these tasks come last, in this order."""
        if not self.feeds_apart:
            return ()
        read = [(feed.origin, lane) for lane in self.lanes if lane.kernel is not None for feed in lane.feeds]
        return tuple(
            {(stream, lane.number): (stream, lane) for stream, lane in read if isinstance(stream, str)}.values()
        )

    @cached_property
    def feed_tasks(self) -> Ints:
        """The task of every feed."""
        return len(self.streams) + sum(map(self.width, self.lanes)) + np.arange(len(self.feeds))

    @cached_property
    def feed_sources(self) -> Ints:
        """The source of every feed."""
        return np.array([self.streams.index(stream) for stream, _ in self.feeds], np.int64)

    @cached_property
    def number(self) -> int:
        """Number of tasks."""
        return len(self.streams) + sum(map(self.width, self.lanes)) + len(self.feeds)

    @cached_property
    def instances(self) -> tuple[InstanceId, ...]:
        """The instance of every unit that is bound."""
        return self.program.instances

    @cached_property
    def task_of(self) -> dict[InstanceId, int]:
        """The task of every instance."""
        stateful = [lane for lane in self.lanes if lane.kernel is not None]
        return {each: self.first[lane.number] + n for lane in stateful for n, each in enumerate(lane.instances)}

    @cached_property
    def instance_tasks(self) -> Ints:
        """The task of every unit that is bound."""
        return np.array([self.task_of[instance] for instance in self.instances], np.int64)

    @cached_property
    def unit(self) -> Ints:
        """The unit of every task."""
        units = np.full(self.number, -1, np.int64)
        units[self.instance_tasks] = np.arange(len(self.instances))
        stateless = [self.first[lane.number] for lane in self.lanes if lane.kernel is None]
        bound = len(self.instances)
        units[stateless] = bound + np.arange(len(stateless))
        units[: len(self.streams)] = bound + len(stateless) + np.arange(len(self.streams))
        units[self.feed_tasks] = units[self.feed_sources]
        return units

    @cached_property
    def group(self) -> Ints:
        """Sources and lanes by number: tasks of one group share the fixed cost of a turn."""
        groups = np.arange(self.number, dtype=np.int64)
        for lane in self.lanes:
            groups[self.places(lane)] = len(self.streams) + lane.number
        groups[self.feed_tasks] = len(self.streams) + len(self.lanes) + np.arange(len(self.feeds))
        return groups

    @cached_property
    def order(self) -> Ints:
        """The order of tasks that are equally old: where feeds are apart, what is wired first comes first."""
        found = np.zeros(self.number, np.int64)
        if self.feeds_apart:
            for place, lane in enumerate(self.lanes):
                found[self.places(lane)] = 2 * place + 1 if lane.kernel is not None else 2 * len(self.lanes)
            place_of = {lane.number: place for place, lane in enumerate(self.lanes)}
            found[self.feed_tasks] = [2 * place_of[lane.number] for _, lane in self.feeds]
        return found

    @cached_property
    def edges(self) -> Ints:
        """Channels between tasks: instances of equally many go one to one, others all to all."""
        found: list[tuple[int, int]] = []
        by_number = {lane.number: lane for lane in self.lanes}
        task_of = {
            (stream, lane.number): task
            for (stream, lane), task in zip(self.feeds, self.feed_tasks.tolist(), strict=True)
        }
        found += zip(self.feed_sources.tolist(), self.feed_tasks.tolist(), strict=True)
        for lane in self.lanes:
            targets = range(self.places(lane).start, self.places(lane).stop)
            for feed in lane.feeds:
                if isinstance(feed.origin, str):
                    before = task_of.get((feed.origin, lane.number), self.streams.index(feed.origin))
                    found += [(before, target) for target in targets]
                    continue
                places = self.places(by_number[feed.origin])
                sources = range(places.start, places.stop)
                if len(sources) == len(targets):
                    found += zip(sources, targets, strict=True)
                else:
                    found += [(source, target) for source in sources for target in targets]
        return np.array(list(dict.fromkeys(found)), np.int64).reshape(-1, 2)

    @cached_property
    def row_bytes(self) -> Floats:
        """The assumed size of an input row of every task."""
        sizes = np.zeros(self.number)
        for number, stream in enumerate(self.streams):
            sizes[number] = VALUE_BYTES * len(self.program.columns(stream))
        for lane in self.lanes:
            columns = max((len(port) for port in lane.types), default=1)
            sizes[self.places(lane)] = VALUE_BYTES * max(1, columns)
        return sizes

    @cached_property
    def written_by(self) -> dict[int, tuple[str, ...]]:
        """The queries whose results each task writes, for those that write any.

        The table stands for its queries where a task is not that of an instance of its own.
        """
        found: dict[int, tuple[str, ...]] = {}
        for lane in self.lanes:
            for number, task in enumerate(range(self.places(lane).start, self.places(lane).stop)):
                names = [_written(lane, outlet, number) for outlet in lane.outlets]
                if names:
                    found[task] = tuple(dict.fromkeys(name for name in names if name is not None))
        return found

    @cached_property
    def sinks(self) -> Ints:
        """The number of sinks that get the results of every task; 0 for those that only feed other tasks."""
        found = np.zeros(self.number, np.int64)
        for lane in self.lanes:
            for number, task in enumerate(range(self.places(lane).start, self.places(lane).stop)):
                found[task] = sum(_written(lane, outlet, number) is not None for outlet in lane.outlets)
        return found

    def owners(self, binding: Binding, *, outside: bool) -> list[int]:
        """The worker of every unit; sources have none if they are outside of the machine."""
        bound = [int(binding.worker_of.get(instance, 0)) for instance in self.instances]
        stateless = [lane for lane in self.lanes if lane.kernel is None]
        rest = [self._home(lane, number) % binding.workers for number, lane in enumerate(stateless)]
        sources = [-1 if outside else number % binding.workers for number in range(len(self.streams))]
        return [*bound, *rest, *sources]

    def _home(self, lane: Lane, number: int) -> int:
        """The worker of a lane without state: that of its source, where feeds are apart, as on the local runtime."""
        origins = [feed.origin for feed in lane.feeds if isinstance(feed.origin, str)]
        return self.streams.index(origins[0]) if self.feeds_apart and origins else number


def _written(lane: Lane, outlet: Outlet, number: int) -> str | None:
    """The query of an instance of a lane, None if it has none; else the table."""
    if lane.kernel is None or len(outlet.query_of) != len(lane.instances):
        return outlet.table
    return outlet.query_of[number]


@dataclass(frozen=True, eq=False)
class Merged:
    """What every instance merges in a step: new rows, their events, bytes of its state before, and pairs of its rows.

    All are 0 for one that only collects rows, because neither a window ends nor may any row bring results. `bare`: the
    first task of each lane on each worker that has to take a turn for the watermark alone, if it gets no rows.
    """

    rows: Floats
    events: Floats
    state_bytes: Floats
    pairs: Floats
    bare: Ints | None = None


@dataclass(frozen=True, eq=False)
class Counts:
    """What one step brings: rows of a source due at a time, and for every task its events and results.

    `state_bytes`: the size of the state of every instance after it. `merged`: what instances merge with their state.
    If it is not known, those with results merge theirs, and new rows are as many per event as in the profile.
    `effort`: what instances do beside, where kernels count it. `occasions`: what the results of every task come with.
    """

    source: int
    due_s: float
    rows: int
    events: Ints
    results: Ints
    state_bytes: Floats
    merged: Merged | None = None
    effort: Effort | None = None
    occasions: Ints | None = None
