"""What every mechanism is."""

from collections.abc import Sequence
from typing import Protocol

from shoal.mechanisms.plan import Plan, Transfer
from shoal.model.control.costs import LinkCosts


class Mechanism(Protocol):
    """A way to carry a rebinding out."""

    @property
    def name(self) -> str:
        """The one name it has everywhere."""

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Make a plan for some transfers; called each time a runtime is about to execute some of them.

        No two transfers are of the same instance. Their order is the runtime's: what is best moved first is in front
        (instances of workers that go), what lies together is next to each other. A mechanism keeps that order among
        transfers it has no reason to tell apart. The same arguments give the same plan, every transfer is resumed
        exactly once in it, and no transfers give a plan without steps.

        A runtime may execute a part of a plan and ask for another plan for what is left.
        """
