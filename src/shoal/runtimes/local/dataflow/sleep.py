"""Sleep: parts of lanes that have no instances are told nothing, and nobody waits for them.

A lane has a part for every worker there may ever be. One without instances sleeps: splits send it nothing, and those
behind it do not count it when they look how far event time is closed. Before it may have an instance, it wakes up: it
says so to all behind it and waits until they have read it, so that none of them is further than what it will answer.
Those that sleep themselves need not have read it: when they wake up, every split in front of them tells them anew, and
until all have, they go no further.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from shoal.runtimes.local.dataflow.channel import Channel


@dataclass(eq=False)
class Sleep:
    """Whether a part sleeps; in odd phases it does. Written by who runs the part.

    `behind` are the channels behind it up to the next parts, each before those further behind, with the sleep of the
    part that reads it. `version` is the change by which splits are told that it has woken up.
    """

    phase: int
    behind: list[tuple[Channel, "Sleep | None"]] = field(default_factory=list)
    version: int = 0
    known: bool = True
    _told: bool = True

    @property
    def asleep(self) -> bool:
        """Whether it sleeps."""
        return self.phase % 2 == 1

    def fall(self) -> None:
        """Fall asleep."""
        self.phase += 1

    def wake(self, version: int) -> None:
        """Wake up, which others have yet to hear."""
        self.phase += 1
        self.version = version
        self.known = self._told = False

    @property
    def heard(self) -> bool:
        """Whether all behind it who are awake know that it is."""
        return self.known or all(
            channel.phase >= self.phase or (reader is not None and reader.asleep) for channel, reader in self.behind
        )

    def told(self, seen: Sequence[int]) -> bool:
        """Whether all splits in front of it have told it how far they are, where these are the versions they know."""
        if not self._told:
            self._told = all(version >= self.version for version in seen)
        return self._told
