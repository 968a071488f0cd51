"""Entries of the journal about partitions of the plane."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rebalanced:
    """Partitions of the plane were changed: how, which and where; costs of workers before and, as predicted, after.

    `change`: grid (one partition for each worker), history (by a sample; costs of the costliest and the cheapest
    worker), move, split or merge. A cost is N * Q * R / R(S): points, ranges, and the share of all that was received.
    """

    at_s: float
    epoch: int
    policy: str
    change: str
    source: int
    target: int
    instances: tuple[str, ...]
    where: str
    cost_source: float
    cost_target: float
    expected_source: float
    expected_target: float


@dataclass(frozen=True)
class RebalanceMeasured:
    """The costs of both workers in the round after partitions were moved or split."""

    at_s: float
    epoch: int
    change: str
    source: int
    target: int
    source_before: float
    target_before: float
    source_after: float
    target_after: float
