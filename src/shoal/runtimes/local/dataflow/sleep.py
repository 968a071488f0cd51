"""Sleep: parts of lanes without instances get no messages, and no watermark waits for them.

A lane has a part for every possible worker. A part without instances sleeps: splits send it nothing, and readers
downstream leave it out of their watermark. Before it gets an instance, it wakes up:

1. It announces its new phase to all readers downstream.
2. It waits until those that are awake have read it, so that no watermark there is ahead of its future results.
3. A reader that sleeps need not read it. When that reader wakes up, every split upstream notifies it again, and it does
   not advance its watermark before all have.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from shoal.runtimes.local.dataflow.channel import Channel


@dataclass(eq=False)
class Sleep:
    """Whether a part sleeps, which it does in odd phases. Written by the worker that runs the part.

    `downstream` are the channels up to the next parts, in the order of the flow, each with the sleep of the part that
    reads it. `version` is the version of the ownership by which splits learn that it has woken up.
    """

    phase: int
    downstream: list[tuple[Channel, "Sleep | None"]] = field(default_factory=list)
    version: int = 0
    confirmed: bool = True
    _notified: bool = True

    @property
    def asleep(self) -> bool:
        """Whether the part sleeps."""
        return self.phase % 2 == 1

    def fall_asleep(self) -> None:
        """Fall asleep."""
        self.phase += 1

    def wake(self, version: int) -> None:
        """Wake up; readers and splits have yet to acknowledge it."""
        self.phase += 1
        self.version = version
        self.confirmed = self._notified = False

    @property
    def acknowledged(self) -> bool:
        """Whether all awake readers downstream have read that the part is awake."""
        return self.confirmed or all(
            channel.phase >= self.phase or (reader is not None and reader.asleep) for channel, reader in self.downstream
        )

    def notified(self, observed: Sequence[int]) -> bool:
        """Whether all splits upstream have sent their watermarks since it woke up, by the versions read from them."""
        if not self._notified:
            self._notified = all(version >= self.version for version in observed)
        return self._notified
