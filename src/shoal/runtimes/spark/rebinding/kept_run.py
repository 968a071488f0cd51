"""A run on Spark by its checkpoint directory, as other processes see it."""

from shoal.errors import CheckpointError
from shoal.model.control.binding import Binding
from shoal.model.control.partitioning import Partitioning
from shoal.model.query.graph import Graph
from shoal.runtimes.protocol import RemoteCommand
from shoal.runtimes.spark.driver.restore import written_binding
from shoal.runtimes.spark.rebinding.mailbox import Answer, Letters
from shoal.runtimes.spark.state.checkpoint import Checkpoint
from shoal.storage.directory import Directory


class SparkRun:
    """Reads the checkpoint, and leaves commands in its mailbox."""

    def __init__(self, directory: str) -> None:
        """Name the directory; nothing is written yet."""
        self._directory = directory
        self._checkpoint = Checkpoint(directory)
        self._letters = Letters(directory)

    def last_epoch(self) -> int | None:
        """The last epoch with a manifest."""
        return self._checkpoint.last_epoch() if Directory(self._directory).exists("epochs") else None

    def graph(self, epoch: int) -> Graph:
        """The graph that an epoch's manifest names."""
        return self._checkpoint.graph(self._checkpoint.manifest(epoch).graph)

    def bound(self, epoch: int) -> tuple[Partitioning, Binding]:
        """What an epoch's manifest says."""
        manifest = self._checkpoint.manifest(epoch)
        graph = self._checkpoint.graph(manifest.graph)
        return manifest.partitioning, written_binding(graph, manifest, manifest.binding, manifest.workers)

    def is_running(self) -> bool:
        """Whether somebody holds the checkpoint; on a remote one nobody knows, so it is taken to be so."""
        try:
            self._checkpoint.lock()
        except CheckpointError:
            return True
        self._checkpoint.unlock()
        return "://" in self._directory

    def ask(self, command: RemoteCommand) -> str:
        """Put a command into the mailbox."""
        return self._letters.ask(command)

    def answer(self, number: str) -> Answer | None:
        """What became of a command; None as long as nothing has."""
        return self._letters.answer(number)

    def is_open(self, number: str) -> bool:
        """Whether a command still waits or is being carried out."""
        return self._letters.is_open(number)

    def withdraw(self, number: str) -> bool:
        """Take a command back; False if the run has taken it up already."""
        return self._letters.withdraw(number)
