"""Steering: where controller and runtime meet. Events go up, commands go down, and the journal is kept."""

import queue
from collections.abc import Iterable

from shoal.control.controller import NOTHING, Controller, Reaction
from shoal.control.journal import Entry
from shoal.model.control.messages import Command, EpochCommitted, Event, RunEnded
from shoal.runtimes.protocol import Runtime
from shoal.session.journal import JournalFile


class Steering:
    """Tells the controller what happens and does what it says; one thread uses it, any may ask for workers."""

    def __init__(self, controller: Controller, runtime: Runtime, journal: JournalFile | None) -> None:
        """Nothing has happened yet."""
        self.controller = controller
        self._runtime = runtime
        self._journal = journal
        self._given: tuple[Command, ...] = ()
        self._asked: queue.SimpleQueue[int] = queue.SimpleQueue()

    def scale(self, workers: int) -> None:
        """Ask for another number of workers, as soon as the run has said what it has."""
        self._asked.put(workers)

    def take(self, event: Event) -> float:
        """React to an event; returns the processor time spent on it, without waiting for others who use Python."""
        began_s = self._runtime.cpu_s()
        reaction = self.controller.handle(event)
        self._given = reaction.commands or self._given
        if isinstance(event, EpochCommitted) and not reaction.commands:
            reaction += self._resized(event.epoch, event.at_s)
        for command in reaction.commands:
            self._runtime.apply(command)
        self.note(reaction.entries)
        return 0.0 if isinstance(event, RunEnded) else self._runtime.cpu_s() - began_s

    def gave(self, command: Command) -> bool:
        """Whether a command was the controller's own idea, so that only the journal has to know of its refusal."""
        return any(command is one for one in self._given)

    def _resized(self, epoch: int, now_s: float) -> Reaction:
        """The answer to the newest wish for workers, if there is one."""
        wanted = None
        while not self._asked.empty():
            wanted = self._asked.get_nowait()
        if wanted is None:
            return NOTHING
        return self.controller.resize(wanted, "it was asked for", epoch, now_s) or NOTHING

    def note(self, entries: Iterable[Entry]) -> None:
        """Write entries into the journal, if there is one."""
        if self._journal is not None:
            self._journal.add(entries)
