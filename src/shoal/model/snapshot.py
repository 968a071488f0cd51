"""Snapshots: what one look at a running job saw, as values a policy can reason about."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.model.binding import Binding
from shoal.model.graph import InstanceId


@dataclass(frozen=True)
class InstanceLoad:
    """One instance during one epoch: events behind what it received, its time, its answers, its state."""

    events: int
    cost_s: float
    results: int
    state_bytes: int


@dataclass(frozen=True)
class Snapshot:
    """All instances during one epoch, with the binding that was in force."""

    epoch: int
    binding: Binding
    loads: Mapping[InstanceId, InstanceLoad] = field(default_factory=dict)
    watermarks_us: Mapping[str, int] = field(default_factory=dict)
