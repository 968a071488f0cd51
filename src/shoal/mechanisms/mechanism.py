"""The protocol of mechanisms."""

from collections.abc import Sequence
from typing import Protocol

from shoal.mechanisms.plan import Plan
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.costs import LinkCosts


class Mechanism(Protocol):
    """A way to execute a rebinding."""

    @property
    def name(self) -> str:
        """Its name in code, on the command line and in the journal."""

    @property
    def summary(self) -> str:
        """One line about it."""

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Make a plan for some transfers; called each time a runtime is about to execute some of them.

        Transfers are of different instances, in the runtime's order of preference: instances of workers to be removed
        come first, instances stored together are adjacent. A mechanism keeps that order unless it has a reason. The
        same arguments must give the same plan, which resumes every transfer exactly once; without transfers it has no
        steps.

        A runtime may execute a part of a plan and call again for the rest.
        """
