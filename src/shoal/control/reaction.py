"""Reactions: what the controller answers to an event."""

from dataclasses import dataclass

from shoal.control.journal import Entry
from shoal.model.control.messages import Command


@dataclass(frozen=True)
class Reaction:
    """Commands for the runtime, and entries for the journal."""

    commands: tuple[Command, ...] = ()
    entries: tuple[Entry, ...] = ()

    def __add__(self, other: "Reaction") -> "Reaction":
        """Both, one after the other."""
        return Reaction(self.commands + other.commands, self.entries + other.entries)


NOTHING = Reaction()
