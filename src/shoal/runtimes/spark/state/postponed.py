"""Postponed state: that of instances which have a new worker already, but whose state it has not read yet.

The state stays in the segment that the old worker wrote. It is read when rows of its instance arrive or the watermark
reaches the time at which it is due, otherwise in the background.
"""

from dataclasses import dataclass, replace

from shoal.model.control.messages import MoveReport
from shoal.model.query.graph import InstanceId


@dataclass(frozen=True)
class Rest:
    """How long state can be left alone: its watermark, and the first one at which it may give a result."""

    watermark_us: int
    due_us: int


@dataclass(frozen=True)
class Postponed:
    """The state of an instance that its worker has not read yet.

    `source`: the worker that it had before. `mechanism`: the one that moves it. `begun_us`: when it got its new worker.
    `ahead`: read in the background in this epoch. `load`: read in this epoch even if nothing needs it.
    """

    instance: InstanceId
    segment: str
    source: int
    mechanism: str
    rest: Rest
    begun_us: int = 0
    ahead: bool = False
    load: bool = False

    def read_ahead(self) -> "Postponed":
        """What it is in the epoch after one in which it was read in the background: loaded."""
        return replace(self, ahead=False, load=True) if self.ahead else self


@dataclass(frozen=True)
class Loss:
    """State that a move of a rebinding has discarded."""

    rebind: str
    move: MoveReport


@dataclass(frozen=True)
class Dropped:
    """The state of an instance that a move discards.

    `source`: the worker that had the instance, and says what is lost. `watermark_us`: that of the state if it is older
    than the epoch's.
    """

    instance: InstanceId
    segment: str
    source: int
    watermark_us: int | None = None
