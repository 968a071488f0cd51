"""The journal: every decision with its reason, its expected effect and its measured effect."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.control.effects.host_entries import HostChoice, HostsMeasured
from shoal.control.partitions.rebalance_entries import Rebalanced, RebalanceMeasured
from shoal.model.control.messages import QueryLoss
from shoal.model.control.migration_metrics import MigrationMetrics

MOST_MOVES = 200
"""Moves that a decision lists; the others are only counted."""


@dataclass(frozen=True)
class Begun:
    """A run began."""

    at_s: float
    job: str
    runtime: str
    policy: str
    workers: int
    instances: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    simulated_time: bool = False


@dataclass(frozen=True)
class CandidateWorker:
    """A worker that an instance could be on, as the decision model sees it; staying costs nothing.

    The score is P of the study, the cost C, the amortisation time *at* and the benefit B = P (1 - C). `host` is empty
    where the runtime does not know hosts.
    """

    worker: int
    host: str
    score: float
    cost: float
    amortisation_s: float
    benefit: float


@dataclass(frozen=True)
class Moving:
    """A move that was considered: the scores, the cost and the benefit by which it was made, or why it was not.

    `candidates` are the worker that it is on, and the best workers of the nodes; only the first moves of a decision
    have them.
    """

    instance: str
    name: str
    source: int
    target: int
    state_bytes: int
    score_here: float
    score_there: float
    amortisation_s: float
    cost: float
    benefit: float
    refused: str = ""
    candidates: tuple[CandidateWorker, ...] = ()


@dataclass(frozen=True)
class Decided:
    """The binding changed: why, which moves, and the busiest worker over the mean before and, as expected, after.

    `moved` and `stayed` count all moves that were made and refused; `moves` names the first of them. `goal`: what the
    policy aims at instead of an even load, with its amount before and, as expected, after. `hosts`: instances that go
    to other hosts than the policy proposed, or stay.
    """

    at_s: float
    number: int
    epoch: int
    trigger: str
    policy: str
    peak_before: float
    peak_expected: float
    latency_before_s: float
    moved: int
    stayed: int
    moved_bytes: int
    moves: tuple[Moving, ...]
    goal: str = ""
    goal_before: float = 0.0
    goal_expected: float = 0.0
    hosts: tuple[HostChoice, ...] = ()


@dataclass(frozen=True)
class Kept:
    """A trigger fired and the binding was kept; `times` counts observations with the same outcome.

    `hosts`: instances that stay since the twin expects the way to cost more than it gains.
    """

    at_s: float
    epoch: int
    trigger: str
    policy: str
    reason: str
    peak: float
    times: int = 1
    moves: tuple[Moving, ...] = ()
    hosts: tuple[HostChoice, ...] = ()


@dataclass(frozen=True)
class Measured:
    """The effect of a decision, measured after its moves."""

    at_s: float
    number: int
    epoch: int
    peak_before: float
    peak_expected: float
    peak_after: float
    latency_before_s: float
    latency_after_s: float
    rest_s: float
    """Pause before the next decision; longer after decisions without effect."""
    goal: str = ""
    goal_before: float = 0.0
    goal_expected: float = 0.0
    goal_after: float = 0.0


@dataclass(frozen=True)
class MechanismCost:
    """What a rebinding would cost with one mechanism, as the twin predicts; without figures if it is impossible.

    `cost` is the objective in event-seconds. `latency_s` is the time that events would wait in sum, `emission_s` that
    of windows, `seconds` until all instances work at their new workers. `refused`: why it was not chosen.
    """

    mechanism: str
    cost: float | None
    frozen_s: float = 0.0
    latency_s: float = 0.0
    emission_s: float = 0.0
    seconds: float = 0.0
    sent_bytes: int = 0
    lost: float = 0.0
    refused: str = ""


@dataclass(frozen=True)
class Advised:
    """The twin has chosen the mechanism of a rebinding: `candidates` are all that the runtime has, the best first.

    `moment`: why the rebinding begins now; empty if there was no other moment.
    """

    at_s: float
    mechanism: str
    moved: int
    moved_bytes: int
    candidates: tuple[MechanismCost, ...]
    moment: str = ""


@dataclass(frozen=True)
class Aborted:
    """A decision was carried out in part: how many of its moves were made, how many not, and why."""

    at_s: float
    number: int
    made: int
    given_up: int
    reason: str


@dataclass(frozen=True)
class Migrated:
    """The moves of a rebinding have ended: what they cost, and what each query has lost with their state.

    `moved` moves were made and `given_up` were not. The metrics are None where the runtime has not measured. `notes`:
    what was done otherwise than the mechanism promises.
    """

    at_s: float
    rebind: str
    mechanism: str
    moved: int
    given_up: int
    metrics: MigrationMetrics
    lost: tuple[QueryLoss, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scaled:
    """The number of workers was changed."""

    at_s: float
    epoch: int
    workers: int
    wanted: int
    reason: str
    moved: int


@dataclass(frozen=True)
class Divided:
    """An instance was split, or the parts of one were merged: how many parts, and its work in shares of a worker."""

    at_s: float
    epoch: int
    change: str
    instance: str
    name: str
    parts: int
    shares: float


@dataclass(frozen=True)
class DivisionMeasured:
    """The effect of a split or a merge: the work of the largest part, in shares of a worker."""

    at_s: float
    epoch: int
    change: str
    name: str
    shares_before: float
    shares_after: float


@dataclass(frozen=True)
class Lost:
    """Workers were lost; `moved` of their instances were bound to others."""

    at_s: float
    workers: tuple[int, ...]
    reason: str
    moved: int


@dataclass(frozen=True)
class Left:
    """Instances left hosts that are expected to go, before they do.

    `transfer_s` is the time that the transfer is expected to take. `stayed` counts instances that could not leave in
    time; `reason` says why. If time is short, `first` are the most useful instances, and `kept` is the share of the
    utility that is expected to leave: of events that need the state.
    """

    at_s: float
    epoch: int
    trigger: str
    hosts: tuple[str, ...]
    moved: int
    moved_bytes: int
    transfer_s: float
    stayed: int = 0
    reason: str = ""
    first: tuple[str, ...] = ()
    kept: float = 1.0


@dataclass(frozen=True)
class Refused:
    """The runtime refused a command of the controller."""

    at_s: float
    command: str
    reason: str


@dataclass(frozen=True)
class Rejected:
    """A file in the mailbox of the run was refused and set aside."""

    at_s: float
    file: str
    reason: str


@dataclass(frozen=True)
class Parked:
    """Queries failed and were parked; the others went on."""

    at_s: float
    queries: tuple[str, ...]
    reason: str
    row: str = ""


@dataclass(frozen=True)
class SheddingBegun:
    """Input is shed from now on: how, and why."""

    at_s: float
    epoch: int
    shedding: str
    reason: str


@dataclass(frozen=True)
class SheddingEnded:
    """No more input is shed: why, how many rows were, and for how long."""

    at_s: float
    epoch: int
    reason: str
    rows: int
    lasted_s: float


@dataclass(frozen=True)
class TileLoad:
    """The rectangle of cells of one instance, its worker, and what it did in a period."""

    number: int
    worker: int
    left: int
    top: int
    right: int
    bottom: int
    events: int
    results: int
    cost_s: float


@dataclass(frozen=True)
class Mapped:
    """The rectangles of a spatial operator and their load; `space`, `cells` and `units` are those of its grid."""

    at_s: float
    epoch: int
    operator: str
    queries: tuple[str, ...]
    space: tuple[float, float, float, float]
    cells: tuple[int, int]
    units: str
    period_s: float
    tiles: tuple[TileLoad, ...]


@dataclass(frozen=True)
class Ended:
    """The run ended: its totals, and the shares of compute, migration and policy in its time."""

    at_s: float
    epochs: int
    events: int
    moves: int
    state_bytes_moved: int
    cost_share: Mapping[str, float]
    error: str = ""


Entry = (
    Begun
    | Decided
    | Kept
    | Measured
    | Advised
    | HostsMeasured
    | Aborted
    | Migrated
    | Scaled
    | Divided
    | DivisionMeasured
    | Rebalanced
    | RebalanceMeasured
    | Lost
    | Left
    | Refused
    | Rejected
    | Parked
    | SheddingBegun
    | SheddingEnded
    | Mapped
    | Ended
)
