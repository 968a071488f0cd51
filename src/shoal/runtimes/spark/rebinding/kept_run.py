"""A run on Spark as other processes see it: through its checkpoint directory."""

from shoal.errors import CheckpointError
from shoal.model.control.binding import Binding
from shoal.model.control.parked import ParkedQuery
from shoal.model.control.partitioning import Partitioning
from shoal.model.query.graph import Graph
from shoal.runtimes.protocol import RemoteCommand
from shoal.runtimes.spark.driver.restore import written_binding
from shoal.runtimes.spark.rebinding.mailbox import CommandReply, MailboxClient
from shoal.runtimes.spark.state.checkpoint import Checkpoint
from shoal.storage.directory import Directory


class SparkRun:
    """Reads the checkpoint, and leaves commands in its mailbox."""

    def __init__(self, directory: str) -> None:
        """Name the directory; nothing is written yet."""
        self._directory = directory
        self._checkpoint = Checkpoint(directory)
        self._mailbox = MailboxClient(directory)

    def last_epoch(self) -> int | None:
        """The last epoch with a manifest."""
        return self._checkpoint.last_epoch() if Directory(self._directory).exists("epochs") else None

    def graph(self, epoch: int) -> Graph:
        """The graph that an epoch's manifest names."""
        return self._checkpoint.unverified_graph(self._checkpoint.manifest(epoch).graph)

    def parked(self, epoch: int) -> tuple[ParkedQuery, ...]:
        """The parked queries that an epoch's manifest lists."""
        return self._checkpoint.manifest(epoch).parked

    def bound(self, epoch: int) -> tuple[Partitioning, Binding]:
        """What an epoch's manifest says."""
        manifest = self._checkpoint.manifest(epoch)
        graph = self._checkpoint.unverified_graph(manifest.graph)
        return manifest.partitioning, written_binding(graph, manifest, manifest.binding, manifest.workers)

    def is_running(self) -> bool:
        """Whether a process holds the lock of the checkpoint; always True on remote storage, which has no locks."""
        try:
            self._checkpoint.lock()
        except CheckpointError:
            return True
        self._checkpoint.unlock()
        return "://" in self._directory

    def ask(self, command: RemoteCommand) -> str:
        """Put a command into the mailbox."""
        return self._mailbox.ask(command)

    def reply(self, number: str) -> CommandReply | None:
        """The reply to a command; None until there is one."""
        return self._mailbox.reply(number)

    def is_open(self, number: str) -> bool:
        """Whether the run has taken the command up and not replied yet."""
        return self._mailbox.is_open(number)

    def withdraw(self, number: str) -> bool:
        """Withdraw a command; False if the run has already taken it up."""
        return self._mailbox.withdraw(number)
