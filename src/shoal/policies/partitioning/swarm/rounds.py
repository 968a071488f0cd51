"""Rounds of SWARM: after each, whether to rebalance, and what to change."""

from dataclasses import dataclass, field

from shoal.errors import ConfigError, PartitioningError
from shoal.model.control.partitioning import Change, Merge, operator_of
from shoal.model.query.graph import InstanceId
from shoal.model.spatial.tiles import joined
from shoal.policies.partitioning.swarm.decision_stages import BETA, DecisionStages
from shoal.policies.partitioning.swarm.plane import Plane
from shoal.policies.partitioning.swarm.reduction import Reduction, reduced, reduction
from shoal.policies.partitioning.swarm.relief import relieving

MERGE_ROUNDS = 240
"""Rounds between two searches for rectangles that can be merged."""
REBALANCE = {
    "stages": "while throughput rises, by the five stages of the study",
    "uneven": "after every round in which a worker costs 5 % more than the mean",
}
"""When a round rebalances."""
UNEVEN = 0.05
"""How much more than the mean, as a share of it, the costliest worker may cost with `uneven`."""
MOST_STEPS = 200
"""Reductions that are applied to a sample at most."""


@dataclass(frozen=True)
class SwarmMemory:
    """What a decision remembers of the rounds before: the stages, and how many rounds there were."""

    stages: DecisionStages = field(default_factory=DecisionStages)
    rounds: int = 0


@dataclass(frozen=True)
class SampleLayout:
    """Partitions for a sample: the changes that make them, one after another, and the worker of every instance."""

    changes: tuple[Change, ...]
    worker_of: dict[InstanceId, int]
    before: tuple[float, ...]
    after: tuple[float, ...]


@dataclass(frozen=True)
class Swarm:
    """Moves and splits partitions, and now and then merges those of one worker.

    `rebalance`: after which rounds, a key of `REBALANCE`. `reductions`: how many at most after a round, each from the
    costliest worker to the cheapest; with more than one, an exchange may take their place.
    """

    beta: int = BETA
    merge_rounds: int = MERGE_ROUNDS
    rebalance: str = "stages"
    reductions: int = 1

    def __post_init__(self) -> None:
        """Reject numbers of rounds below one."""
        if self.beta < 1 or self.merge_rounds < 1:
            raise ConfigError(f"beta and merge_rounds must be at least 1; got {self.beta} and {self.merge_rounds}")
        if self.reductions < 1:
            raise ConfigError(f"reductions must be at least 1; got {self.reductions}")

    def decided(
        self, memory: SwarmMemory, plane: Plane, period_s: float
    ) -> tuple[SwarmMemory, tuple[Reduction, ...] | tuple[Merge, ...]]:
        """What to remember, and what to change: reductions, merges, or nothing. Called when a round is closed.

        Throughput is received points and ranges per second, since rounds need not be equally long.
        """
        stages = memory.stages.after(plane.received / period_s if period_s > 0 else 0.0, self.beta)
        memory = SwarmMemory(stages, memory.rounds + 1)
        found = self._reductions(plane, stages)
        if not found and memory.rounds % self.merge_rounds == 0:
            return memory, merges(plane)
        return memory, found

    def _reductions(self, plane: Plane, stages: DecisionStages) -> tuple[Reduction, ...]:
        if self.rebalance == "uneven":
            return relieving(plane, self.reductions, UNEVEN)
        return relieving(plane, self.reductions) if stages.rebalances else ()


def merges(plane: Plane) -> tuple[Merge, ...]:
    """Pairs of partitions of one operator on one worker that form a rectangle; each is in one pair at most."""
    found: list[Merge] = []
    used: set[InstanceId] = set()
    partitions = sorted(plane.partitions, key=lambda each: (each.statistics.tile, each.instance))
    for place, one in enumerate(partitions):
        for other in partitions[place + 1 :]:
            same = one.worker == other.worker and operator_of(one.instance) == operator_of(other.instance)
            if not same or {one.instance, other.instance} & used:
                continue
            try:
                joined([one.statistics.tile, other.statistics.tile])
            except PartitioningError:  # they form no rectangle
                continue
            used |= {one.instance, other.instance}
            found.append(Merge((one.instance, other.instance)))
    return tuple(found)


def laid_out(plane: Plane) -> SampleLayout:
    """The partitions that a sample asks for: reductions are applied until none lowers any cost."""
    before, changes = plane.costs, list[Change]()
    for _ in range(MOST_STEPS):
        found = reduction(plane)
        if found is None:
            break
        plane, _ = reduced(plane, found)
        changes += [] if found.cut is None else [found.cut]
    worker_of = {each.instance: each.worker for each in plane.partitions}
    return SampleLayout(tuple(changes), worker_of, before, plane.costs)
