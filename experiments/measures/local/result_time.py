"""Where the time of a result goes, between when its oldest event was due and when the sink has it.

The turns of a run are traced. From the turn that emits a result, the turns that led to it are followed back to the
source: of every node before, the last turn with events that had ended when the next one began. The time is then

1. `source`: from when the event was due until the source's turn began, since the source waits for a block or a worker;
2. `turn`: between the end of one of these turns and the beginning of the next, since no worker takes it;
3. `work`: processor time of these turns;
4. `lock`: the rest of their time, in which the worker waited for the interpreter lock or for a processor;
5. `sink`: from the end of the last turn until the sink has the result.

Tracing costs a few microseconds per turn, so that results take a little longer than in usual runs. Garbage is not
collected meanwhile: traces are many objects, which every full collection would look at for milliseconds.
"""

import gc
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.rate import Rate
from shoal.errors import RunError
from shoal.experiments.experiment import TrialOutcome
from shoal.model.control.messages import RunEnded
from shoal.policies.binding.static import round_robin
from shoal.runtimes.local.dataflow.delivery import Delivery
from shoal.runtimes.local.dataflow.node import OutletNode
from shoal.runtimes.local.runtime import LocalSetup
from shoal.runtimes.local.trace import TracedRuntime, TurnTrace
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

PARTS = ("source", "turn", "work", "lock", "sink")
BEGINNING_S = 1.0
"""The first results do not count: channels allocate memory then."""


@dataclass(frozen=True)
class Emission:
    """Rows that a node emitted: the number of the node, when, how many rows, and when their oldest event was due."""

    place: int
    at_s: float
    rows: int
    due_s: float


class FollowedRuntime(TracedRuntime):
    """A traced run that records emissions and deliveries as well, by the clock of the turns."""

    def __init__(self, setup: LocalSetup) -> None:
        super().__init__(setup)
        self.emissions: list[Emission] = []
        self.delivered_s: list[float] = []

    def _delivery_of(self) -> Delivery:
        delivery = super()._delivery_of()
        plain = delivery.deliver

        def deliver() -> None:
            plain()
            self.delivered_s.append(time.perf_counter())

        delivery.deliver = deliver  # type: ignore[method-assign]
        ahead_s = time.time() - time.perf_counter()
        for place, node in enumerate(self.nodes):
            if isinstance(node, OutletNode):
                self._watch(place, node, ahead_s)
        return delivery

    def _watch(self, place: int, node: OutletNode, ahead_s: float) -> None:
        plain = node.results.emit

        def emit(table: str, rows, taken_s: float) -> None:  # type: ignore[no-untyped-def]
            plain(table, rows, taken_s)
            self.emissions.append(Emission(place, time.perf_counter(), rows.num_rows, taken_s - ahead_s))

        node.results.emit = emit  # type: ignore[method-assign]


@dataclass
class Turns:
    """The turns of a node that took events: their beginnings and ends in order, and processor times."""

    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, trace: TurnTrace) -> "Turns":
        """Those of a trace."""
        busy = [turn for turn in trace.turns if not turn.empty]
        return cls(
            [turn.began_s for turn in busy],
            [turn.began_s + turn.wall_s for turn in busy],
            [turn.cpu_s for turn in busy],
        )

    def last_before(self, moment_s: float) -> int | None:
        """The last turn that had ended by a moment."""
        at = bisect_right(self.ends, moment_s) - 1
        return at if at >= 0 else None

    def around(self, moment_s: float) -> int | None:
        """The turn in which a moment was."""
        at = bisect_right(self.begins, moment_s) - 1
        return at if at >= 0 and moment_s <= self.ends[at] else None


def parts(workload_name: str, rate: float, seconds: float = 8.0, workers: int = 2) -> TrialOutcome:
    """The mean milliseconds of each part, by results, and their sum; `latency_ms.p99` of the sums."""
    ready = workload(workload_name).ready(0, Amount(int(rate * seconds), Rate.of(str(rate))), {})
    setup = LocalSetup(ready.job.sources, MemorySink())
    runtime = FollowedRuntime(setup)
    gc.disable()
    runtime.start(ready.job.graph, round_robin(ready.job.graph, workers))
    for event in runtime.events():
        if isinstance(event, RunEnded) and event.error is not None:
            raise event.error
    found, rows = followed(runtime)
    if not rows.size:
        raise RunError(f"no result of {workload_name} could be followed; let it run for more than {seconds:g} s")
    total_ms = 1e3 * found.sum(axis=1)
    means = 1e3 * np.average(found, axis=0, weights=rows)
    order = np.argsort(total_ms)
    p99 = total_ms[order][np.searchsorted(np.cumsum(rows[order]), 0.99 * rows.sum())]
    metrics = {f"ms.{name}": float(mean) for name, mean in zip(PARTS, means, strict=True)}
    metrics |= {"latency_ms.mean": float(means.sum()), "latency_ms.p99": float(p99), "results": float(rows.sum())}
    return TrialOutcome(metrics)


def followed(runtime: FollowedRuntime) -> tuple[np.ndarray, np.ndarray]:
    """The seconds of each part of every emission that can be followed, and the rows of each."""
    traces = runtime.traces
    turns = [Turns.of(trace) for trace in traces]
    writers = {id(channel): place for place, trace in enumerate(traces) for channel in trace.node.outputs}
    before = [[writers[id(channel)] for channel in trace.node.inputs] for trace in traces]
    first_s = min((each.begins[0] for each in turns if each.begins), default=0.0) + BEGINNING_S
    found, rows = [], []
    for emission in runtime.emissions:
        delivered = bisect_right(runtime.delivered_s, emission.at_s)
        if emission.due_s < first_s or delivered == len(runtime.delivered_s):
            continue
        path = _path(emission, turns, before)
        if path:
            found.append(_divided(emission, path, turns, runtime.delivered_s[delivered]))
            rows.append(emission.rows)
    return np.array(found).reshape(-1, len(PARTS)), np.array(rows)


def _path(emission: Emission, turns: Sequence[Turns], before: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Nodes and their turns that led to an emission, from the sink to the source; empty if the trace does not tell."""
    place, at = emission.place, turns[emission.place].around(emission.at_s)
    path = []
    while at is not None:
        path.append((place, at))
        if not before[place]:
            return path
        began_s = turns[place].begins[at]
        ended = [(writer, last) for writer in before[place] if (last := turns[writer].last_before(began_s)) is not None]
        if not ended:
            return []
        place, at = max(ended, key=lambda each: turns[each[0]].ends[each[1]])
    return []


def _divided(
    emission: Emission, path: Sequence[tuple[int, int]], turns: Sequence[Turns], delivered_s: float
) -> list[float]:
    """The time of an emission by part; what happened in the last turn after the emission belongs to the sink."""
    begins = [turns[place].begins[at] for place, at in path]
    ends = [turns[place].ends[at] for place, at in path]
    cpu_s = sum(turns[place].cpu_s[at] for place, at in path)
    ends[0] = min(ends[0], delivered_s)
    in_turns_s = sum(end - begin for begin, end in zip(begins, ends, strict=True))
    between_s = sum(begin - end for begin, end in zip(begins, ends[1:], strict=False))
    work_s = min(cpu_s, in_turns_s)
    source_s = begins[-1] - emission.due_s
    return [source_s, between_s, work_s, in_turns_s - work_s, delivered_s - ends[0]]
