"""Statistical input: no step processes its rows; a sample of them says how many each instance has, and what it emits.

1. A step has as many rows as are due by the rate. They divide among instances exactly as the events count themselves
   (`CountedEvents`), otherwise as those of the latest sample.
2. Once per simulated second, and whenever a window closes, some of the last rows are run through the real kernels. A
   window then has a result for every key that the samples have shown.
3. Lanes whose results follow rows emit as in the sample, or by the selectivity of a profile. Those whose results
   a sample does not show (joins, patterns, sessions) need a profile.
4. The watermark goes by the event times of the last rows of a step.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.compiler.watermarks import Reading, advanced
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Offset, Slice, Source, rows_of
from shoal.errors import ConfigError
from shoal.kernels.columns.table import Tables
from shoal.runtimes.admitted import AdmittedStream
from shoal.runtimes.arrangement import Arrangement, state_after
from shoal.runtimes.simulated.delay.model import DelayModel
from shoal.runtimes.simulated.delay.uniform import operator_of
from shoal.runtimes.simulated.input.closings import ClosingEpoch, occasions
from shoal.runtimes.simulated.input.real import counts_of
from shoal.runtimes.simulated.input.samples import CountedLanes, Floats, Ints, Samples, lane_input
from shoal.runtimes.simulated.input.task_plan import Counts, TaskPlan
from shoal.runtimes.simulated.input.timed import TimedInput

SAMPLE_S = 1.0
"""The time between two samples, unless a window closes."""
GOLDEN = 0.6180339887498949
"""Multiples of the golden section, without their whole parts, are spread evenly."""
TAIL_ROWS = 32
"""The rows at the end of a step whose event times advance the watermark."""
NO_LIMIT = 1 << 62


class StatisticalInput(TimedInput):
    """Counts the rows of every step."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        now_s: Callable[[], float],
        *,
        step_s: float,
        sample_rows: int,
        delays: Callable[[Program], DelayModel],
        profiled: bool,
    ) -> None:
        """Open the sources; `profiled`: whether the delay models know selectivities."""
        self._generators = {stream: _unlimited(stream, source) for stream, source in sources.items()}
        super().__init__(self._generators, now_s, step_s)
        self._sample_rows, self._delays, self._profiled = sample_rows, delays, profiled
        self._state: dict[int, Tables] = {}
        self._closed: dict[str, int] = {}
        self._sampled_s: dict[str, float] = {}
        self._sampled_up_to: dict[str, int] = {}
        self._rows = self._rows_sampled = self._number = 0

    def arranged(self, before: Arrangement, after: Arrangement) -> None:
        """Convert the state of the samples to another arrangement."""
        self._state = state_after(before, after, self._state)

    def planned(self, plan: TaskPlan) -> None:
        """Begin to count for a plan; samples of another one do not fit."""
        model = self._delays(plan.program)
        self._selectivity = {
            lane.number: self._measured(plan, model, lane)
            for lane in plan.lanes
            if lane.kernel is not None and lane.kernel.results_per != "key"
        }
        self._samples = [Samples(plan, source, self._sample_rows) for source in range(len(plan.streams))]
        self._counted = [CountedLanes(plan, stream, self._generators[stream].counted) for stream in plan.streams]
        self._owed_events, self._owed_results = np.zeros(plan.number), np.zeros(plan.number)
        self._state_bytes = np.zeros(len(plan.instances))
        self._sampled_s.clear()

    def _measured(self, plan: TaskPlan, model: DelayModel, lane: Lane) -> float | None:
        """The selectivity of a lane; None if samples show it."""
        if self._profiled:
            return model.selectivity(lane)
        if lane.kernel is not None and lane.kernel.results_per == "row":
            return None
        operator = operator_of(plan.program, lane)
        raise ConfigError(
            f"a sample does not show the results of {operator.kind} {lane.instances[0]}; with mode=statistical give "
            "trace=FILE, a profile of the target, which `shoal profile --output` writes"
        )

    def _step(self, plan: TaskPlan, source: int, now: Arrangement, end: Offset | None, due_s: float) -> Counts:
        program, stream = now.program, plan.streams[source]
        now_us = round(self._now_s() * 1e6)
        first = int(self._offsets[stream]["position"])
        last = first if end is None else int(end["position"])
        readings = [Reading(name, flush=True) for name in program.inputs]
        if end is not None:
            readings = [Reading(stream, self._newest_us(program, stream, first, last), ended=bool(end["ended"]))]
        marks = advanced(program, self._marks, readings, now_us)
        sample = None
        if end is None or self._is_due(plan, source, last, marks):
            sample = self._sample(plan, source, now, (first, last), marks)
        counts = self._counts(plan, source, (first, last), sample, due_s)
        if end is not None:
            self._offsets[stream] = end
        self._marks = marks
        self._rows += last - first
        self.written.rows += last - first
        return counts

    def _newest_us(self, program: Program, stream: str, first: int, last: int) -> int:
        """The newest event time among the last rows of a step."""
        admitted = AdmittedStream(program, stream, time.time_ns() // 1000)
        piece = _piece(max(first, last - TAIL_ROWS), last)
        for raw in rows_of(self._sources[stream], piece, program.wanted(stream)):
            admitted.block(raw)
        return admitted.newest_us

    def _is_due(self, plan: TaskPlan, source: int, last: int, marks: Mapping[str, int]) -> bool:
        """Whether it is time for a sample: a window closes, or samples are too old or too small."""
        stream, samples = plan.streams[source], self._samples[source]
        if self._now_s() - self._sampled_s.get(stream, -SAMPLE_S) >= SAMPLE_S:
            return True
        if samples.missing and last - self._sampled_up_to[stream] >= samples.rows:
            return True
        return any(
            lane.kernel.due(lane.watermark_us(self._closed), lane.watermark_us(marks))
            for lane in plan.lanes
            if lane.kernel is not None and lane.kernel.results_per == "key" and lane.depth == 1
        )

    def _sample(
        self, plan: TaskPlan, source: int, now: Arrangement, step: tuple[int, int], marks: Mapping[str, int]
    ) -> Counts:
        """Run some of the last rows through the kernels, as many as the time since the last sample allows.

        They are in another part of the step each time, so that a stream which repeats itself shows all of its keys.
        """
        stream = plan.streams[source]
        passed_s = min(SAMPLE_S, self._now_s() - self._sampled_s.get(stream, -SAMPLE_S))
        wanted = max(TAIL_ROWS, round(self._sample_rows * passed_s / SAMPLE_S), self._samples[source].missing)
        self._number += 1
        room = max(0, step[1] - step[0] - wanted)
        last = step[1] - int(room * (self._number * GOLDEN % 1.0))
        first = max(self._sampled_up_to.get(stream, 0), last - wanted)
        epoch = ClosingEpoch(now.program, self._closed, round(self._now_s() * 1e6), wall_us=time.time_ns() // 1000)
        if first < last:
            positions = ({"position": each, "ended": False} for each in (first, last))
            epoch.read(stream, self._sources[stream], self._cursors[stream], *positions)
        loads = epoch.computed(self._state, marks)
        counts = counts_of(plan, source, epoch, loads, self._now_s())
        sample = replace(counts, occasions=occasions(plan, epoch.closings, counts.events))
        self._samples[source].add(sample)
        self._closed = dict(marks)
        self._sampled_s[stream], self._sampled_up_to[stream] = self._now_s(), step[1]
        self._rows_sampled += last - first
        return sample

    def _counts(
        self, plan: TaskPlan, source: int, rows: tuple[int, int], sample: Counts | None, due_s: float
    ) -> Counts:
        """Events and results of all tasks, lane behind lane."""
        number, stream, samples = rows[1] - rows[0], plan.streams[source], self._samples[source]
        events, results = np.zeros(plan.number, np.int64), np.zeros(plan.number, np.int64)
        events[source] = number
        exact, closings = self._counted[source].counted(*rows) if number else {}, dict[int, int]()
        for lane in plan.lanes:
            places = plan.places(lane)
            if lane.number in exact:
                events[places] = exact[lane.number]
            else:
                given = lane_input(plan, lane, stream, number, results)
                if given:
                    shares = np.ones(1) if lane.kernel is None else samples.shares(lane)
                    events[places] = _whole(self._owed_events[places], given * shares)
            if lane.kernel is not None and lane.kernel.results_per == "key":
                closings[lane.number] = 0
                if sample is not None and sample.occasions is not None:
                    results[places] = sample.results[places]
                    closings[lane.number] = int(sample.occasions[places].max(initial=0))
            elif events[places].any():
                ratio = self._selectivity.get(lane.number)
                ratio = samples.results_per_event(lane) if ratio is None else ratio
                results[places] = _whole(self._owed_results[places], ratio * events[places].astype(float))
        if sample is not None:
            self._state_bytes = sample.state_bytes * self._growth(plan, number)
        found = occasions(plan, closings, events)
        return Counts(source, due_s, number, events, results, self._state_bytes, occasions=found)

    def _growth(self, plan: TaskPlan, number: int) -> Floats:
        """What the state of every instance is multiplied with: where it is rows, samples have a part of them."""
        growth = np.ones(plan.number)
        for lane in plan.lanes:
            if lane.kernel is not None and lane.kernel.results_per != "key":
                growth[plan.places(lane)] = (self._rows + number) / max(1, self._rows_sampled)
        return growth[plan.instance_tasks]


def _whole(owed: Floats, more: Floats) -> Ints:
    """Whole numbers for fractions; what is left stays owed, so that nothing is lost over many steps."""
    owed += more
    given = np.floor(owed + 1e-9)
    owed -= given
    return given.astype(np.int64)


def _piece(first: int, last: int) -> Slice:
    return Slice(f"events {first}..{last}", last - first, {"start": first, "stop": last})


def _unlimited(stream: str, source: Source) -> Generator:
    """A generator with a rate, without a limit per arrival."""
    if not isinstance(source, Generator):
        raise ConfigError(
            f"mode=statistical counts generated events; stream {stream!r} is read from {type(source).__name__}, "
            "use mode=real"
        )
    if source.rate is None:
        raise ConfigError(f"mode=statistical needs a rate; stream {stream!r} has none, give --rate")
    return replace(source, rows_per_epoch=NO_LIMIT)
