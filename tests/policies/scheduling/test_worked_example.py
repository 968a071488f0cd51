"""The worked example of the study behind `state-based` (its Table 1): five operators, one worker, 18 events.

The study runs C before D, though by its own formula D, of the larger selectivity, has the smaller output cost. So
the order printed comes out with the selectivities of C and D exchanged, and with D and C exchanged as they stand; the
number of decisions, which is what the example shows, is the same both ways.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from shoal.policies.scheduling.min_latency import MinLatency
from shoal.policies.scheduling.policy import Candidate, OperatorCost, SchedulingPolicy
from shoal.policies.scheduling.state_based import StateBased, Thresholds

COST_MS = 0.5
READERS = {"A": ("B",), "B": ("C", "D"), "C": ("E",), "D": ("E",), "E": ()}
NAMES = tuple(READERS)
EVENTS = 18
BLOCK = 4
AS_PRINTED = {"A": 1.0, "B": 1.0, "C": 0.25, "D": 0.3, "E": 1.0}
EXCHANGED = {**AS_PRINTED, "C": 0.3, "D": 0.25}


@dataclass
class Pipeline:
    """The five operators on a clock of their own, in milliseconds."""

    selectivity: dict[str, float]
    now_ms: float = 0.0
    done: int = 0
    pending: dict[str, int] = field(default_factory=lambda: {"A": 4, "B": 2, "C": 4, "D": 4, "E": 2})
    ran_ms: dict[str, float] = field(default_factory=lambda: dict.fromkeys(NAMES, 0.0))

    def costs(self) -> list[OperatorCost]:
        return [
            OperatorCost(COST_MS / 1000, self.selectivity[name], tuple(NAMES.index(next_) for next_ in READERS[name]))
            for name in NAMES
        ]

    def candidates(self, priorities: Sequence[float]) -> list[Candidate]:
        return [
            Candidate(
                position,
                self.pending[name],
                priorities[position],
                COST_MS / 1000,
                0.0,
                self.idle_ms(name) / 1000,
                turns=0,
            )
            for position, name in enumerate(NAMES)
            if self.pending[name]
        ]

    def idle_ms(self, name: str) -> float:
        return self.now_ms - self.ran_ms[name]

    def run(self, name: str) -> None:
        taken = min(BLOCK, self.pending[name])
        self.pending[name] -= taken
        self.done += taken
        self.now_ms += taken * COST_MS
        self.ran_ms[name] = self.now_ms
        for next_ in READERS[name]:
            self.pending[next_] += int(taken * self.selectivity[name])


def order(policy: SchedulingPolicy, selectivity: dict[str, float]) -> str:
    """The operators in the order they run until at least 18 events have been processed."""
    pipeline, ran = Pipeline(selectivity), ""
    priorities = policy.priorities(pipeline.costs())
    while pipeline.done < EVENTS:
        turn = policy.choose(pipeline.candidates(priorities), left_s=0.0)
        assert turn is not None
        ran += NAMES[turn.position]
        pipeline.run(NAMES[turn.position])
    return ran


ENJIMA = StateBased(Thresholds(events=4, idle_s=0.005))


@pytest.mark.parametrize(
    ("policy", "selectivity", "wanted"),
    [
        pytest.param(ENJIMA, EXCHANGED, "CDEBA", id="state-based, the order of the table"),
        pytest.param(ENJIMA, AS_PRINTED, "DCEBA", id="state-based, the numbers of the table"),
        pytest.param(MinLatency(BLOCK), EXCHANGED, "ECEDEBCD", id="min-latency, the order of the table"),
        pytest.param(MinLatency(BLOCK), AS_PRINTED, "EDECEBDC", id="min-latency, the numbers of the table"),
    ],
)
def test_the_table_comes_out(policy: SchedulingPolicy, selectivity: dict[str, float], wanted: str) -> None:
    assert order(policy, selectivity) == wanted


def test_thresholds_save_three_of_eight_decisions() -> None:
    assert (len(order(ENJIMA, AS_PRINTED)), len(order(MinLatency(BLOCK), AS_PRINTED))) == (5, 8)


def test_without_the_idle_threshold_the_second_operator_waits_for_the_first() -> None:
    patient = StateBased(Thresholds(events=4, idle_s=1.0))
    assert order(patient, EXCHANGED) == "CDEAB"
