"""Sliced input: the rows of an epoch from all streams at once, as many as have come since the one before."""

import time
from collections.abc import Callable, Mapping
from copy import deepcopy

import numpy as np

from shoal.compiler.watermarks import TICK_S, Reading, advanced, moves_with_time
from shoal.connectors.sources.generator import GeneratorCursor
from shoal.connectors.sources.source import Offset, Source
from shoal.model.control.snapshot import InstanceLoad
from shoal.model.query.graph import InstanceId
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.shedder import after_reading
from shoal.runtimes.simulated.input.real import RealInput
from shoal.runtimes.simulated.input.timed import NEVER_S
from shoal.runtimes.simulated.micro_batch.epoch_work import EpochWork, Floats, Ints, SlicedEpoch

POLL_S = 0.01
"""The time after which Spark asks sources again that had nothing."""
ANY_ROWS = 1 << 62
"""No limit on the rows of an epoch but that of the sources."""


class SlicedInput(RealInput):
    """Reads all sources by the simulated clock, an epoch at a time, in slices for the slots that there are."""

    def __init__(self, sources: Mapping[str, Source], now_s: Callable[[], float], *, parks: bool) -> None:
        """Open the sources; nothing is read yet."""
        super().__init__(sources, now_s, block_rows=ANY_ROWS, step_s=POLL_S, parks=parks)
        self._ran_s = 0.0

    def epoch(self, now: Arrangement, slots: int) -> tuple[EpochWork | None, float]:
        """The next epoch if there is something to do, and when to ask again if there is not.

        The last epoch has no rows and closes all windows. Nothing is changed if a query fails.
        """
        if self._flushed:
            return None, NEVER_S
        if self._finished():
            work = self._computed(now, slots, self._offsets, final=True)
            self._flushed = True
            return work, NEVER_S
        ends = {stream: cursor.latest(self._offsets[stream]) for stream, cursor in self._cursors.items()}
        if ends == self._offsets and not self._is_tick_due(now):
            waiting = [stream for stream, offset in self._offsets.items() if not offset["ended"]]
            again_s = min((self._next_s(stream, self._offsets[stream]) for stream in waiting), default=NEVER_S)
            return None, min(again_s, self._tick_s(now))
        return self._computed(now, slots, ends), NEVER_S

    def _tick_s(self, now: Arrangement) -> float:
        """When an epoch without rows is due, because time alone may change something."""
        is_due = moves_with_time(now.program, self._marks, holds_state=any(self._state.values()))
        return self._ran_s + TICK_S if is_due else NEVER_S

    def _is_tick_due(self, now: Arrangement) -> bool:
        return self._now_s() >= self._tick_s(now)

    def _computed(self, now: Arrangement, slots: int, ends: Mapping[str, Offset], *, final: bool = False) -> EpochWork:
        """Read up to the offsets, apply that to the state and count it."""
        program, now_us = now.program, round(self._now_s() * 1e6)
        # recorded rows are in the past by the real clock, wherever the simulated one is
        epoch = SlicedEpoch(program, self._marks, now_us, time.time_ns() // 1000, slots, self._shedding)
        due_s, readings = self._due(ends), list[Reading]()
        for stream, end in ends.items():
            readings += epoch.read(stream, self._sources[stream], self._cursors[stream], self._offsets[stream], end)
        if final:
            readings += [Reading(stream, flush=True) for stream in program.inputs]
        marks = advanced(program, self._marks, readings, now_us)
        # user aggregates may change the objects that are their state
        state = deepcopy(self._state) if self._parks else self._state
        loads = epoch.computed(state, marks)
        self._offsets, self._state, self._marks = dict(ends), state, marks
        self._shedding = after_reading(self._shedding, readings)
        self._ran_s = self._now_s()
        self.written.add(epoch)
        return epoch.work(due_s, _counts(program.instances, loads))

    def _due(self, ends: Mapping[str, Offset]) -> tuple[float, float]:
        """When the first and the last row up to the offsets were due: now, if they have no times."""
        now_s, found = self._now_s(), list[float]()
        for stream, cursor in self._cursors.items():
            first, end = self._offsets[stream], ends[stream]
            if not isinstance(cursor, GeneratorCursor) or first["position"] == end["position"]:
                continue
            last = {**end, "position": end["position"] - 1}
            found += [each for each in (cursor.due_s(first), cursor.due_s(last)) if each is not None]
        return min([now_s, *found]), min(now_s, max(found, default=now_s))


def _counts(instances: tuple[InstanceId, ...], loads: Mapping[InstanceId, InstanceLoad]) -> tuple[Ints, Ints, Floats]:
    found = [loads[instance] for instance in instances]
    events, results, state_bytes = ([getattr(load, name) for load in found] for name in _COUNTED)
    return np.array(events, np.int64), np.array(results, np.int64), np.array(state_bytes, np.float64)


_COUNTED = ("events", "results", "state_bytes")
