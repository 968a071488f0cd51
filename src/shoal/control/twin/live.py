"""Live profiles: what the controller knows of the instances that a rebinding is about to move.

A runtime reports sizes and rates of instances, not their fragments. The keys of an instance are taken to be alike; how
long state is needed follows from its operator: the panes of windows, the rows of a join as long as they can match.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.compiler.build import kernel_of
from shoal.control.observation import Observation
from shoal.control.twin.profile import LONGEST_S, Endpoint, Floats, MigrationProfile
from shoal.control.twin.state_cycle import StateCycles
from shoal.kernels.kernel import Kernel
from shoal.mechanisms.shedding.capacity import TransferLink
from shoal.model.control.binding import Move
from shoal.model.control.fragment import NO_DEADLINE_US, Fragments
from shoal.model.control.partitioning import operator_of
from shoal.model.query.graph import Graph, InstanceId, Operator
from shoal.policies.binding.layout import ROW_BYTES

MOST_KEYS_EACH = 32
"""Keys of an instance that are told apart."""
MOST_EXTENTS = 8
"""Times at which the state of a key is needed that are told apart."""
SECOND_US = 1_000_000


@dataclass(frozen=True)
class OperatorTimes:
    """How long an operator needs its state, in seconds of event time; `slide_s` is 0 unless it closes windows."""

    size_s: float
    slide_s: float = 0.0

    @classmethod
    def of(cls, operator: Operator, window: Operator | None) -> "OperatorTimes":
        """The times of an operator; `size_s` is `LONGEST_S` if its state has no end."""
        parameters = operator.parameters
        if window is not None and "slide_us" in window.parameters:
            return cls(window.parameters["size_us"] / 1e6, window.parameters["slide_us"] / 1e6)
        if window is not None:
            return cls(window.parameters.get("gap_us", LONGEST_S * 1e6) / 1e6)
        within = parameters.get("within_us")
        if within is None:
            return cls(LONGEST_S)
        return cls((within[1] - within[0] if operator.kind == "join" else within) / 1e6)


def groups_of(observation: Observation, moves: Sequence[Move]) -> Mapping[tuple[int, int], list[Move]]:
    """The moves by the operator-independent part of their way: from which node or host to which."""
    hosts, found = observation.topology.hosts, dict[tuple[int, int], list[Move]]()
    for move in moves:
        ends = (int(move.source), int(move.target))
        if max(ends) >= observation.topology.workers:
            continue
        place = observation.topology.node_of if hosts is None else hosts.of_worker.tolist()
        found.setdefault((place[ends[0]], place[ends[1]]), []).append(move)
    return found


@dataclass(frozen=True, eq=False)
class LiveProfiles:
    """Makes profiles of moves; `pace` is how many seconds of event time pass in a second.

    `results_per_s`: of every instance. `left_s`: the time until each host goes, of those that are expected to.
    `cycles`: how state of windows grows and falls. Profiles are of moves that begin `later_s` seconds from now.
    """

    observation: Observation
    graph: Graph
    results_per_s: Mapping[InstanceId, float]
    left_s: Mapping[int, float]
    pace: float = 1.0
    cycles: StateCycles | None = None
    later_s: float = 0.0

    def of(self, ends: tuple[int, int], moves: Sequence[Move]) -> list[MigrationProfile]:
        """A profile for the instances of each operator that go from one node or host to another."""
        by_operator = dict[str, list[Move]]()
        for move in moves:
            by_operator.setdefault(operator_of(move.instance), []).append(move)
        return [self._profile(ends, own) for own in by_operator.values()]

    def _profile(self, ends: tuple[int, int], moves: Sequence[Move]) -> MigrationProfile:
        operator = self.graph.operators[operator_of(moves[0].instance)]
        before = self.graph.operators[operator.inputs[0]]
        window = before if before.kind == "window" else None
        kernel: Kernel = kernel_of(operator, window, "", by_instance=True)
        times = OperatorTimes.of(operator, window)
        slide_s, size_s = times.slide_s / self.pace, min(LONGEST_S, times.size_s / self.pace)
        rates, costs, sizes = self._columns(moves)
        watermark_us, ratio = self._later(moves[0], slide_s)
        results = sum(self.results_per_s.get(move.instance, 0.0) for move in moves)
        rate = float(rates.sum())
        keys = self._keys(results * slide_s / len(moves) if slide_s else 1.0)
        extents = max(1, min(MOST_EXTENTS, round(size_s / slide_s))) if slide_s else MOST_EXTENTS
        extents = 1 if size_s >= LONGEST_S else extents
        return MigrationProfile(
            _fragments(ratio * sizes, keys, extents, slide_s, size_s),
            np.repeat(rates / keys, keys),
            self._link(ends, moves[0]),
            watermark_us=watermark_us,
            event_cost_s=float(costs @ rates) / rate if rate else 0.0,
            event_bytes=ROW_BYTES,
            slide_s=slide_s,
            results_per_event=0.0 if slide_s or not rate else results / rate,
            rewrites=operator.kind == "aggregate",
            new_bytes=ROW_BYTES * (min(1.0, results / rate) if operator.kind == "deduplicate" and rate else 1.0),
            lifetime_s=size_s if size_s < LONGEST_S else 0.0,
            on_arrival=kernel.on_arrival,
            bounded=kernel.bounded and size_s < LONGEST_S,
            left_s=max(0.0, self.left_s.get(ends[0], LONGEST_S) - self.later_s),
            source=self._endpoint(int(moves[0].source)),
            target=self._endpoint(int(moves[0].target)),
            horizon_s=self.observation.horizon_s,
        )

    def _later(self, move: Move, slide_s: float) -> tuple[int, float]:
        """How much of the slide has passed when the moves begin, and the size of the state then over that now.

        Where no watermark is known it is half of the slide, and the size stays.
        """
        cycle = None if self.cycles is None else self.cycles.of(operator_of(move.instance))
        ahead_us = round(self.later_s * self.pace * SECOND_US)
        phase_us = None if cycle is None else cycle.phase_us(ahead_us)
        if cycle is None or phase_us is None:
            return round(slide_s * SECOND_US / 2), 1.0
        ratio = cycle.ratio(ahead_us) if ahead_us else None
        return round(phase_us / self.pace), 1.0 if ratio is None else ratio

    def _columns(self, moves: Sequence[Move]) -> tuple[Floats, Floats, Floats]:
        """Rate, cost of an event and bytes of every instance."""
        loads = self.observation.loads
        place_of = {instance: place for place, instance in enumerate(loads.instances)}
        places = [place_of[move.instance] for move in moves]
        return loads.rate_per_s[places], loads.cost_s[places], loads.state_bytes[places]

    @staticmethod
    def _keys(number: float) -> int:
        return max(1, min(MOST_KEYS_EACH, round(number)))

    def _link(self, ends: tuple[int, int], move: Move) -> TransferLink:
        """The link between two nodes: as learned, or as the topology says where it knows."""
        observation = self.observation
        costs, hosts = observation.loads.costs, observation.topology.hosts
        if hosts is not None:
            way = hosts.ways.onward(ends[0])
            bandwidth = min(float(way.bytes_per_s[ends[1]]), 1e12)
            return TransferLink(bandwidth, float(way.latency_s[ends[1]]))
        node_of = observation.topology.node_of
        nodes = (node_of[int(move.source)], node_of[int(move.target)])
        return TransferLink(costs.bandwidth(nodes), costs.hand_over_s)

    def _endpoint(self, worker: int) -> Endpoint:
        hosts = self.observation.topology.hosts
        return Endpoint() if hosts is None else Endpoint(float(hosts.speed[hosts.of_worker[worker]]))


def _fragments(sizes: Floats, keys: int, extents: int, slide_s: float, size_s: float) -> Fragments:
    """State of equal keys, each in parts that are needed one after another."""
    number = len(sizes) * keys * extents
    part = np.tile(np.arange(1, extents + 1), len(sizes) * keys)
    if size_s >= LONGEST_S:
        deadline_us = np.full(number, NO_DEADLINE_US)
    else:
        step_us = SECOND_US * (slide_s or size_s / extents)
        deadline_us = (part * step_us).astype(np.int64)
    needed_us = deadline_us if slide_s else np.ones(number, np.int64)
    order = np.arange(1, number + 1, dtype=np.uint64)
    key = np.repeat(np.arange(1, len(sizes) * keys + 1, dtype=np.uint64), extents)
    return Fragments(
        order,
        np.zeros(number, np.int64),
        np.repeat(np.arange(len(sizes)), keys * extents),
        np.repeat(np.maximum(1, sizes / (keys * extents)), keys * extents).astype(np.int64),
        deadline_us,
        part.astype(np.float64),
        np.ones(number, bool),
        key,
        needed_us,
    )
