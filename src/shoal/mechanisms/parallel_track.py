"""Parallel track: both workers receive all events for a while, so that no instance ever stops.

After Y. Zhu et al., "Dynamic Plan Migration for Continuous Queries over Data Streams", SIGMOD 2004.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.errors import MechanismError
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.costs import LinkCosts

EXPIRED = (StepKind.EXPIRE, StepKind.PAUSE, StepKind.REDIRECT, StepKind.RESUME)
"""The target takes over once the source has no state that the target has not."""
CAUGHT_UP = (
    StepKind.EXTRACT,
    StepKind.SEND,
    StepKind.IMPORT,
    StepKind.PAUSE,
    StepKind.REDIRECT,
    StepKind.RESUME,
)
"""The state of the time of duplication arrives; the target then processes what it has buffered, and takes over."""


@dataclass(frozen=True)
class WindowRecreation:
    """No state moves: both workers receive events until the windows from before have closed."""

    name: str = "window-recreation"
    summary: str = "no state moves; both workers receive all events until the windows of the old one have closed"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Duplicate events, and let each target take over when its source has nothing of its own left."""
        del links  # nothing is sent
        for each in transfers:
            if not each.bounded:
                raise MechanismError(
                    f"window-recreation cannot move {each.instance!r}: its state depends on events of any age, so that "
                    "events alone never recreate it; use state-recreation"
                )
        if not transfers:
            return Plan(self.name)
        begun = Batch(Queue.PREAMBLE, (StepKind.DUPLICATE,), tuple(transfers))
        return Plan(self.name, (begun, *(Batch(Queue.NORMAL, EXPIRED, (each,)) for each in transfers)))


@dataclass(frozen=True)
class StateRecreation:
    """State moves while both workers receive events; the target processes what it has missed and takes over."""

    name: str = "state-recreation"
    summary: str = "state moves while both workers receive all events; the new one catches up, then takes over"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Duplicate events, send a copy of the state, and let each target take over when it has caught up."""
        del links  # the same for every link
        if not transfers:
            return Plan(self.name)
        begun = Batch(Queue.PREAMBLE, (StepKind.DUPLICATE, StepKind.BUFFER), tuple(transfers))
        return Plan(self.name, (begun, *(Batch(Queue.NORMAL, CAUGHT_UP, (each,)) for each in transfers)))
