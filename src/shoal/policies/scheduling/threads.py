"""The policy `threads`: a thread per operator, scheduled by the operating system."""

from dataclasses import dataclass

from shoal.policies.scheduling.round_robin import RoundRobin


@dataclass(frozen=True)
class Threads(RoundRobin):
    """Chooses nothing itself; the runtime starts a thread per operator."""
