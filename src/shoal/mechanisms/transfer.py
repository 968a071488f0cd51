"""Transfers: what a mechanism knows of an instance that is to move."""

from dataclasses import dataclass

from shoal.errors import MechanismError
from shoal.model.control.binding import WorkerId
from shoal.model.control.costs import Link
from shoal.model.control.fragment import Fragments
from shoal.model.query.graph import InstanceId

ESSENTIAL_BYTES = 24
"""Bytes of the essential part of a fragment: its id, key and time."""
STATIC_BYTES = 100
"""Bytes of the message that announces an operator, or answers that there is no state of a key."""

MOST_BATCHES = 1024
"""Into how many batches the fragments of an instance are divided at most."""


@dataclass(frozen=True, eq=False)
class SharedCapacity:
    """The bytes of state that reach a host in time; all transfers over the same link have the same one.

    `drops`: nothing is sent beyond it; otherwise the rest follows for as long as the link lives.
    """

    nbytes: int
    drops: bool = False


@dataclass(frozen=True)
class Transfer:
    """The move of one instance: its workers, its state, and the link.

    `fragments`: those of its state; None if the runtime moves whole instances. `on_arrival` and `bounded` are those of
    its kernel. `replicated`: the target has an older copy of the state. `depth`: the number of operators behind it,
    so that mechanisms can begin upstream or downstream. `capacity`: what its link can carry in time; None if all.
    `most_batches`: into how many its fragments are divided.
    """

    instance: InstanceId
    source: WorkerId
    target: WorkerId
    state_bytes: int = 0
    fragments: Fragments | None = None
    link: Link = (0, 0)
    on_arrival: bool = False
    bounded: bool = True
    replicated: bool = False
    depth: int = 0
    capacity: SharedCapacity | None = None
    most_batches: int = MOST_BATCHES

    def __post_init__(self) -> None:
        """Reject a transfer that changes nothing."""
        if self.source == self.target:
            raise MechanismError(f"instance {self.instance!r} must move to another worker; got {self.source} twice")
