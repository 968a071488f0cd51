"""Steering: connects controller and runtime. Events go up, commands go down, entries go to the journal."""

import queue
from collections.abc import Iterable, Iterator

from shoal.control.controller import Controller
from shoal.control.effects.maps import Maps
from shoal.control.effects.migrations import Migrations
from shoal.control.journal import Entry, Migrated
from shoal.control.partitions.remembered import Remembered
from shoal.control.reaction import NOTHING, Reaction
from shoal.control.settings import ControlSettings
from shoal.control.twin.adviser import AUTO
from shoal.mechanisms.catalog import SHEDDING
from shoal.model.control.messages import Command, EpochCommitted, Event, Rebind, RunEnded
from shoal.model.query.graph import Graph
from shoal.runtimes.protocol import Runtime
from shoal.session.journal import JournalFile
from shoal.storage.codec import Codec
from shoal.storage.directory import Directory
from shoal.storage.record import Record

MEMORY = "control"
"""The file of a checkpoint with what the controller remembers."""
MEMORY_FORMAT = 1
MEMORY_RECORD = Record(Codec[Remembered]([Remembered], format=MEMORY_FORMAT))


class ControlMemory:
    """What the controller remembers, in a file of the checkpoint that is replaced after every epoch.

    It is written after the epoch was committed. If a run dies between the two, what came in that epoch is missing in
    the statistics; no result depends on them.
    """

    def __init__(self, checkpoint: str) -> None:
        """Name the file; nothing is read or written yet."""
        self._directory = Directory(checkpoint)

    def read(self) -> Remembered | None:
        """What an earlier run has remembered, if there was one; raises `CheckpointError` if the file is damaged."""
        if not self._directory.exists(MEMORY):
            return None
        return MEMORY_RECORD.decode(self._directory.read(MEMORY), self._directory.path(MEMORY))

    def write(self, remembered: Remembered) -> None:
        """Replace the file."""
        self._directory.write(MEMORY, MEMORY_RECORD.encode(remembered))


class Steering:
    """Passes events to the controller and its commands to the runtime; used by one thread, `scale` by any."""

    def __init__(
        self, controller: Controller, runtime: Runtime, journal: JournalFile | None, maps: Maps, mechanism: str = ""
    ) -> None:
        """Connect them; no event has come yet. `mechanism`: how state moves if a rebinding does not say."""
        self.migrations = Migrations(mechanism, self._earlier)
        self.maps = maps
        self.controller = controller
        self._runtime = runtime
        self._journal = journal
        self._memory: ControlMemory | None = None
        self._given: tuple[Command, ...] = ()
        self._asked: queue.SimpleQueue[int] = queue.SimpleQueue()

    def _earlier(self) -> Iterator[Migrated]:
        """The migrations in the journal."""
        entries = () if self._journal is None else self._journal.entries()
        return (entry for entry in entries if isinstance(entry, Migrated))

    @classmethod
    def of(
        cls,
        graph: Graph,
        policy: str,
        control: ControlSettings,
        runtime: Runtime,
        journal: str | None,
        mechanism: str,
        checkpoint: str | None,
    ) -> "Steering":
        """The steering of a run that begins, with a journal in a directory and a memory in a checkpoint, if any."""
        can = runtime.capabilities
        controller = Controller(
            graph,
            policy,
            control,
            stops_to_divide=can.stops_to_divide,
            mechanisms=can.mechanisms if mechanism == AUTO else (),
            sheds=mechanism == SHEDDING,
        )
        steering = cls(controller, runtime, None if journal is None else JournalFile(journal), Maps(graph), mechanism)
        if checkpoint is not None:
            steering._remember(ControlMemory(checkpoint))
        return steering

    def _remember(self, memory: ControlMemory) -> None:
        """Go on with what an earlier run has remembered, and keep it up to date."""
        self._memory = memory
        remembered = memory.read()
        if remembered is not None:
            self.controller.resume(remembered)

    def scale(self, workers: int) -> None:
        """Ask for another number of workers; takes effect after the next epoch."""
        self._asked.put(workers)

    def take(self, event: Event) -> float:
        """React to an event; returns the processor time of that, which excludes waiting for other threads."""
        began_s = self._runtime.cpu_s()
        self.note(self.migrations.take(event))
        self.note(self.maps.take(event))
        reaction = self.controller.handle(event)
        self._given = reaction.commands or self._given
        if isinstance(event, EpochCommitted) and not reaction.commands:
            reaction += self._resized(event.epoch, event.at_s)
        for command in reaction.commands:
            self.apply(command)
        self.note(reaction.entries)
        if self._memory is not None and isinstance(event, EpochCommitted):
            remembered = self.controller.remembered(event.epoch, event.at_s)
            if remembered is not None:
                self._memory.write(remembered)
        return 0.0 if isinstance(event, RunEnded) else self._runtime.cpu_s() - began_s

    def apply(self, command: Command) -> None:
        """Give a command to the runtime."""
        if isinstance(command, Rebind):
            self.migrations.ask(command)
        self._runtime.apply(command)

    def gave(self, command: Command) -> bool:
        """Whether a command came from the controller, so that its refusal is only for the journal."""
        return any(command is one for one in self._given)

    def _resized(self, epoch: int, now_s: float) -> Reaction:
        """The reaction to the newest request for workers, if there is one."""
        wanted = None
        while not self._asked.empty():
            wanted = self._asked.get_nowait()
        if wanted is None:
            return NOTHING
        return self.controller.resize(wanted, "it was asked for", epoch, now_s) or NOTHING

    def note(self, entries: Iterable[Entry]) -> None:
        """Append entries to the journal, if there is one."""
        if self._journal is not None:
            self._journal.add(entries)
