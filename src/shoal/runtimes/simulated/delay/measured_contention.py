"""Contention of a profile: how much longer turns take while other workers are busy."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shoal.errors import ConfigError
from shoal.runtimes.simulated.machine.machine import Machine

DRAWN, PARTS = 16_384, 256
"""How many sums of random factors are drawn, and into how many parts of equally many they are divided."""
AGAIN = "measure it again with shoal profile --on local"


@dataclass(frozen=True)
class Contention:
    """Factors of the work and of the fixed part of a turn with 1, 2, ... busy workers.

    `long`: those of the work of a turn beyond `long_s`. `wake_ups`: seconds until an idle worker begins a turn.
    `deliveries`: seconds from the end of a turn with results until the sink has them, by the number of other busy
    workers. `nodes`: factors of the fixed part of single nodes, by name, and `waits` how that of each varies: factors
    that occur equally often, 1 on average. `pauses`: seconds between two turns of a worker that has more to do.
    `closings`: seconds that turns with results take longer than modelled, by the name of the lane.
    """

    work: tuple[float, ...]
    turn: tuple[float, ...]
    wake_ups: tuple[tuple[float, ...], ...]
    deliveries: tuple[tuple[float, ...], ...]
    nodes: Mapping[str, float]
    waits: Mapping[str, tuple[float, ...]]
    long: tuple[float, ...]
    long_s: float
    pauses: tuple[tuple[float, ...], ...]
    closings: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def typical(self) -> float:
        """The factor of a fixed part beside one busy worker."""
        return self.turn[min(1, len(self.turn) - 1)]

    @property
    def turn_over_work(self) -> float:
        """How much more a fixed part is slowed down than work, beside one busy worker."""
        return self.typical / self.work[min(1, len(self.work) - 1)]

    @property
    def pause_s(self) -> float:
        """The mean seconds between two turns beside one busy worker, of a worker that has more to do."""
        values = self.pauses[min(1, len(self.pauses) - 1)] if self.pauses else (0.0,)
        return sum(values) / len(values)

    def of_node(self, name: str) -> float:
        """The factor of a node."""
        return float(self.nodes.get(name, 1.0))

    def together(self, weights: Mapping[str, float]) -> tuple[float, ...]:
        """How the sum of the fixed parts of some nodes varies, which vary each by itself; `weights`: their means."""
        found = {name: self.waits.get(name, ()) for name, weight in weights.items() if weight > 0}
        total = sum(weights[name] for name in found)
        if not total or not any(found.values()):
            return ()
        random = np.random.default_rng(0)
        drawn = np.zeros(DRAWN)
        for name, values in found.items():
            drawn += weights[name] / total * (random.choice(values, DRAWN) if values else 1.0)
        parts = np.array([part.mean() for part in np.array_split(np.sort(drawn), PARTS)])
        return tuple((parts / parts.mean()).tolist())

    def on(self, machine: Machine) -> Machine:
        """The machine with this contention."""
        return replace(
            machine,
            slowdown=self.work,
            turn_slowdown=self.turn,
            wake_ups=self.wake_ups,
            pauses=self.pauses,
            long_slowdown=self.long,
            long_s=self.long_s,
        )

    @classmethod
    def of(cls, profile: Mapping[str, Any], *, limited: bool) -> "Contention":
        """The contention in a profile; `limited`: with sources that are read as fast as possible."""
        found = profile.get("contention")
        part = found.get("as_fast_as_possible" if limited else "at_rate") if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping) or not isinstance(part, Mapping):
            raise ConfigError(f"profile has no contention of workers; {AGAIN}")
        try:
            work, turn, long = (tuple(float(each) for each in part[name]) for name in ("work", "turn", "long"))
            wake_ups, deliveries, pauses = (
                tuple(tuple(float(value) for value in row) for row in part[name])
                for name in ("wake_ups", "deliveries", "pauses")
            )
            waits, closings = (
                {str(name): tuple(map(float, values)) for name, values in part[each].items()}
                for each in ("waits", "closings")
            )
            nodes = {str(name): float(factor) for name, factor in found["nodes"].items()}
            long_s = float(found["long_s"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"profile has a contention that cannot be read: {error}; {AGAIN}") from error
        if not work or not turn:
            raise ConfigError(f"profile has no contention of workers; {AGAIN}")
        return cls(work, turn, wake_ups, deliveries, nodes, waits, long, long_s, pauses, closings)
