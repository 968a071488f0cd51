"""Goals: what policies aim at that do not aim at an even load, so that their moves can be judged by it."""

from dataclasses import dataclass
from typing import Protocol

from shoal.model.control.binding import Binding
from shoal.model.control.topology import Topology
from shoal.policies.binding.loads import Ints, Loads


@dataclass(frozen=True, order=True)
class Aim:
    """How far a placement is from a goal: what it violates, and then what it costs. Less is better.

    >>> Aim(0.0, 9.0) < Aim(0.5, 1.0)
    True
    """

    violation: float
    amount: float


class Judge(Protocol):
    """Values placements by the loads of one observation. A placement has the worker of every place."""

    def aim(self, placed: Ints) -> Aim:
        """How far a placement is from the goal."""

    def cost(self, placed: Ints, place: int, worker: int) -> float:
        """What a place costs on a worker, all others as placed; positive, and less is better."""


class PlacementGoal(Protocol):
    """A policy with a goal of its own."""

    @property
    def measure(self) -> str:
        """What `Aim.amount` is, as a noun with its unit."""

    def judge(self, loads: Loads, binding: Binding, topology: Topology) -> Judge:
        """Called once per observation, with the binding under which the loads were measured."""
