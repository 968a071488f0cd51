"""State cycles: the state of windows grows until they close, and what it was one slide ago tells what it will be.

Sizes are those of all instances of an operator, over event time. Nothing is assumed of how state grows: that depends on
the keys and on the aggregates. So nothing is known before a whole slide has been observed.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.model.control.load_columns import Ints, LoadColumns
from shoal.model.control.partitioning import operator_of
from shoal.model.control.snapshot import InstanceLoad, Snapshot
from shoal.model.query.graph import Graph, InstanceId, Operator

SAMPLES = 64
"""Sizes that are kept of each slide, at most."""


@dataclass
class StateCycle:
    """The state of an operator over event time; `slide_us` is the time between two closings of windows."""

    slide_us: int
    streams: frozenset[str]
    newest: tuple[int, float] | None = None
    _samples: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=2 * SAMPLES))

    def add(self, watermark_us: int, state_bytes: float) -> None:
        """Take the size at a watermark; watermarks do not go back."""
        if not self._samples or watermark_us - self._samples[-1][0] >= self.slide_us / SAMPLES:
            self._samples.append((watermark_us, state_bytes))
        self.newest = watermark_us, state_bytes

    def phase_us(self, ahead_us: int = 0) -> int | None:
        """How much of the slide has passed at a time ahead; None if there is no watermark yet."""
        return None if self.newest is None else (self.newest[0] + ahead_us) % self.slide_us

    def ratio(self, ahead_us: int) -> float | None:
        """The size at a time ahead over the size now; None if the same time of an earlier slide is not known.

        Between two sizes the later one counts, so that what has come after a closing is not forgotten.
        """
        if self.newest is None or not self.newest[1] > 0:
            return None
        wanted_us = self.newest[0] + ahead_us + (-ahead_us // self.slide_us) * self.slide_us
        if self._samples[0][0] > wanted_us:
            return None
        known = (*self._samples, self.newest)
        return next(size for at_us, size in known if at_us >= wanted_us) / self.newest[1]


class StateCycles:
    """The cycles of all operators that close windows, by operator."""

    def __init__(self) -> None:
        """Nothing has been observed yet."""
        self._graph: Graph | None = None
        self._cycles: dict[str, StateCycle] = {}
        self._instances: tuple[InstanceId, ...] = ()
        self._operators: tuple[tuple[str, ...], Ints] = ((), np.zeros(0, np.int64))

    def note(self, snapshot: Snapshot, graph: Graph) -> None:
        """Take the sizes of a snapshot; called once for each, in order of time."""
        if graph is not self._graph:
            known, self._graph = self._cycles, graph
            self._cycles = {name: known.get(name, new) for name, new in cycles_of(graph).items()}
        if not self._cycles or not snapshot.loads:
            return
        for name, state_bytes in self._sizes(snapshot.loads).items():
            cycle = self._cycles.get(name)
            if cycle is not None and cycle.streams <= snapshot.watermarks_us.keys():
                mark_us = min(snapshot.watermarks_us[stream] for stream in cycle.streams)
                if NEVER_US < mark_us < FOREVER_US:
                    cycle.add(mark_us, state_bytes)

    def _sizes(self, loads: Mapping[InstanceId, InstanceLoad]) -> dict[str, float]:
        columns = loads if isinstance(loads, LoadColumns) else LoadColumns.of(tuple(loads), loads)
        if columns.instances is not self._instances and columns.instances != self._instances:
            names, number = np.unique([operator_of(each) for each in columns.instances], return_inverse=True)
            self._operators = tuple(map(str, names)), number.astype(np.int64)
        self._instances = columns.instances
        names_, number_ = self._operators
        return dict(zip(names_, np.bincount(number_, columns.state_bytes, len(names_)).tolist(), strict=True))

    @property
    def operators(self) -> Collection[str]:
        """All operators that close windows."""
        return self._cycles.keys()

    def of(self, operator: str) -> StateCycle | None:
        """The cycle of an operator; None if it closes no windows, or its watermark is not that of its streams."""
        return self._cycles.get(operator)


def cycles_of(graph: Graph) -> dict[str, StateCycle]:
    """A cycle without sizes for every operator after a window with a slide, unless its event time was changed."""
    streams, found = dict[str, frozenset[str]](), dict[str, StateCycle]()
    for name, operator in graph.operators.items():
        own = frozenset({str(operator.parameters["stream"])}) if operator.kind == "source" else frozenset[str]()
        streams[name] = own.union(*(streams[each] for each in operator.inputs))
        if operator.kind == "retime":
            streams[name] = frozenset()
        window = graph.operators[operator.inputs[0]] if operator.inputs else operator
        if streams[name] and _follows_watermarks(window):
            found[name] = StateCycle(int(window.parameters["slide_us"]), streams[name])
    return found


def _follows_watermarks(window: Operator) -> bool:
    parameters = window.parameters
    by_event_time = parameters.get("clock", "event") == "event" and not parameters.get("on")
    return window.kind == "window" and "slide_us" in parameters and by_event_time
