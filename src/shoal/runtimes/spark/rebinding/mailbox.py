"""The mailbox of a run: other processes change its queries and instances by files in its checkpoint.

    commands/NUMBER.json     the command, written by the client
    commands/NUMBER.taken    the epoch that takes it up, written before that epoch is planned
    commands/NUMBER.answer   the reply: the epoch that applied it, or why it was refused; written after the commit
    commands/rejected/       commands that were refused and files that are no command, each with a NAME.reason beside it

A command counts as applied once its epoch is planned, since a plan is executed even after a crash. After a restart, a
command taken up for an epoch without a plan is taken up again; one whose epoch has a plan gets its reply. So no command
is lost or applied twice. A client may withdraw a command that is not taken up yet by removing its first file.

Anybody who may write to the directory may leave anything here, so nothing found here stops a run or its restart: what
is no command is moved to `rejected`.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from shoal.errors import ConfigError, GraphError, ShoalError
from shoal.kernels.expression.failing import raised
from shoal.model.control.messages import AddQuery, RemoveQuery, Repartition, ReplaceQuery
from shoal.model.control.partitioning import Cut, Merge, Regroup, Retile, Split
from shoal.model.query.graph import Graph
from shoal.runtimes.protocol import RemoteCommand
from shoal.runtimes.spark.state.checkpoint import StoredGraph
from shoal.storage.codec import Codec
from shoal.storage.directory import Directory
from shoal.storage.record import Record

LOG = logging.getLogger("shoal")
FOLDER = "commands"
ASKED, TAKEN, REPLY = ".json", ".taken", ".answer"
REJECTED, REASON = f"{FOLDER}/rejected", ".reason"
POLL_INTERVAL_S = 0.2
"""The shortest time between two searches for new commands; epochs may be shorter."""
KEPT_REPLIES = 100
KEPT_REJECTED = 200
"""Rejected files that are kept, reasons included."""


@dataclass(frozen=True)
class CommandReply:
    """The reply to a command: the epoch that applied it, or the reason why none did."""

    KIND: ClassVar[str] = "answer"
    epoch: int | None
    reason: str = ""


@dataclass(frozen=True)
class Add:
    """A request to run the one query of a graph as well."""

    graph: StoredGraph


@dataclass(frozen=True)
class Replace:
    """A request to replace the query of the same name by the one query of a graph."""

    graph: StoredGraph


@dataclass(frozen=True)
class Remove:
    """A request to stop a query."""

    name: str


@dataclass(frozen=True)
class Taken:
    """The mark beside a request: which epoch takes it up."""

    epoch: int


Request = Add | Replace | Remove | Split | Merge | Regroup | Cut | Retile
FORMAT = 2
REQUESTS = Record(
    Codec[Request]([Add, Replace, Remove, Split, Merge, Regroup, Cut, Retile], format=FORMAT),
    "command",
    "ask for it again",
)
MARKS = Record(Codec([Taken], format=FORMAT), "file", "remove it, and the command beside it if that has been applied")
REPLIES = Record(Codec([CommandReply], format=FORMAT), "reply", "list the run's queries to see whether it was applied")


def request(command: RemoteCommand) -> Request:
    """A command in the form in which it is written."""
    if isinstance(command, Repartition):
        if len(command.changes) != 1 or command.worker_of:
            raise ConfigError("a request from another process must have one change of the instances and no workers")
        return command.changes[0]
    if isinstance(command, RemoveQuery):
        return Remove(command.name)
    graph = StoredGraph.of(Graph.of([command.query]))
    return Add(graph) if isinstance(command, AddQuery) else Replace(graph)


def command_of(asked: Request) -> RemoteCommand:
    """The command that a request stands for; raises where its graph is not that of one query."""
    if isinstance(asked, Remove):
        return RemoveQuery(asked.name)
    if isinstance(asked, Split | Merge | Regroup | Cut | Retile):
        return Repartition((asked,))
    queries = list(asked.graph.graph().queries.values())
    if len(queries) != 1:
        raise GraphError(f"a command must have one query; got {len(queries)}")
    return AddQuery(queries[0]) if isinstance(asked, Add) else ReplaceQuery(queries[0])


class MailboxClient:
    """The client's side: puts commands into the mailbox of a run and reads the replies."""

    def __init__(self, checkpoint: str) -> None:
        """Name the run by its checkpoint."""
        self._directory = Directory(checkpoint)

    def ask(self, command: RemoteCommand) -> str:
        """Put a command in; returns its number. Numbers grow with time, and commands are applied in their order."""
        number = f"{time.time_ns():020d}"
        self._directory.write(f"{FOLDER}/{number}{ASKED}", REQUESTS.encode(request(command)))
        return number

    def reply(self, number: str) -> CommandReply | None:
        """The reply, or None if there is none yet; reading it removes it."""
        name = f"{FOLDER}/{number}{REPLY}"
        try:
            found = REPLIES.decode(self._directory.read(name), f"{self._directory.uri}/{name}")
        except FileNotFoundError:
            return None
        self._directory.delete([name])
        return found

    def withdraw(self, number: str) -> bool:
        """Withdraw a command; False if it has been taken up, so that a reply will follow."""
        self._directory.delete([f"{FOLDER}/{number}{ASKED}"])
        return not self._directory.exists(f"{FOLDER}/{number}{TAKEN}")

    def is_open(self, number: str) -> bool:
        """Whether the run has taken the command up and not replied yet."""
        return self._directory.exists(f"{FOLDER}/{number}{TAKEN}")


class Mailbox:
    """The run's side: takes commands up for an epoch and replies once it is committed."""

    def __init__(self, checkpoint: str, on_rejected: Callable[[str, str], None] = lambda _file, _reason: None) -> None:
        """Open the mailbox of a checkpoint; nothing is read yet.

        `on_rejected` is called with the name of every file that is set aside, and the reason.
        """
        self._directory = Directory(checkpoint)
        self._on_rejected = on_rejected
        self._ignored: set[str] = set()
        self._taken: dict[str, int] = {}
        self._poll_at_s = 0.0

    def recover(self, last: int, *, planned: bool) -> None:
        """Called once at a restart: reply to what committed epochs have applied, and release what no plan contains.

        `last` is the last committed epoch; `planned` says whether the epoch after it has a plan.
        """
        for name in self._directory.names(FOLDER):
            if not name.endswith(TAKEN):
                continue
            number = name.removesuffix(TAKEN)
            try:
                content = self._directory.read(f"{FOLDER}/{name}")
                epoch = MARKS.decode(content, f"{self._directory.uri}/{FOLDER}/{name}").epoch
            except FileNotFoundError:
                continue
            except (ShoalError, OSError) as error:
                reason = f"{error}; whether the command was applied is unknown, list the run's queries to see"
                self._set_aside(name, reason)
                self.refuse(number, reason)
                continue
            if epoch <= last + planned:
                self._taken[number] = epoch
            else:
                self._directory.delete([f"{FOLDER}/{name}"])
        self.reply_committed(last)

    def has_waiting(self) -> bool:
        """Whether a command waits to be taken up."""
        return bool(self._numbers_waiting())

    def _numbers_waiting(self) -> list[str]:
        names = [name for name in self._directory.names(FOLDER) if name.endswith(ASKED) and name not in self._ignored]
        return [number for name in names if (number := name.removesuffix(ASKED)) not in self._taken]

    def take(self, epoch: int, *, at_once: bool = False) -> list[tuple[str, RemoteCommand]]:
        """Take up all waiting commands for an epoch, oldest first; one that cannot be read is refused here."""
        now_s = time.monotonic()
        if now_s < self._poll_at_s and not at_once:
            return []
        self._poll_at_s = now_s + POLL_INTERVAL_S
        taken = []
        for number in self._numbers_waiting():
            command = self._read(number)
            if command is not None and self._take(number, epoch):
                taken.append((number, command))
        return taken

    def _read(self, number: str) -> RemoteCommand | None:
        name = f"{FOLDER}/{number}{ASKED}"
        try:
            return command_of(REQUESTS.decode(self._directory.read(name), f"{self._directory.uri}/{name}"))
        except FileNotFoundError:
            return None
        except ShoalError as error:
            self.refuse(number, str(error))
        except Exception as error:  # noqa: BLE001  (a file that is no command may fail in any way)
            self.refuse(number, f"file {self._directory.uri}/{name} is no command: {raised(error)}; ask for it again")
        return None

    def _take(self, number: str, epoch: int) -> bool:
        """Take a command up; False if the client has withdrawn it.

        Each side writes first and checks the other's file afterwards, so at least one of them notices the other.
        """
        self._directory.write(f"{FOLDER}/{number}{TAKEN}", MARKS.encode(Taken(epoch)))
        if not self._directory.exists(f"{FOLDER}/{number}{ASKED}"):
            self._directory.delete([f"{FOLDER}/{number}{TAKEN}"])
            return False
        self._taken[number] = epoch
        return True

    def refuse(self, number: str, reason: str) -> None:
        """Reply that a command is refused. It is set aside first, so that a crash does not revive it."""
        LOG.warning("refused a command of another process: %s", reason)
        self._set_aside(f"{number}{ASKED}", reason)
        with contextlib.suppress(ShoalError, OSError):  # nobody may be waiting, and the name may be any
            self._write_reply(number, CommandReply(None, reason))

    def _set_aside(self, name: str, reason: str) -> None:
        """Move a file to the rejected ones, with the reason beside it; one that cannot be moved is ignored."""
        self._on_rejected(f"{FOLDER}/{name}", reason)
        try:
            content = self._directory.read(f"{FOLDER}/{name}")
            self._directory.write(f"{REJECTED}/{name}", content)
            self._directory.write(f"{REJECTED}/{name}{REASON}", f"{reason}\n".encode("utf-8", "backslashreplace"))
            self._directory.delete([f"{FOLDER}/{name}"])
            old = self._directory.names(REJECTED)[:-KEPT_REJECTED]
            self._directory.delete(f"{REJECTED}/{each}" for each in old)
        except FileNotFoundError:
            return
        except (ShoalError, OSError) as error:
            LOG.warning("cannot set file %s/%s/%s aside: %s", self._directory.uri, FOLDER, name, error)
            self._ignored.add(name)

    def reply_committed(self, last: int) -> None:
        """Reply to the commands of all committed epochs; called after each commit, and safe to repeat after a crash."""
        done = [(number, epoch) for number, epoch in self._taken.items() if epoch <= last]
        for number, epoch in done:
            self._write_reply(number, CommandReply(epoch))
        if done:
            replies = [name for name in self._directory.names(FOLDER) if name.endswith(REPLY)]
            self._directory.delete(f"{FOLDER}/{name}" for name in replies[:-KEPT_REPLIES])

    def _write_reply(self, number: str, reply: CommandReply) -> None:
        self._directory.write(f"{FOLDER}/{number}{REPLY}", REPLIES.encode(reply))
        self._directory.delete([f"{FOLDER}/{number}{ASKED}", f"{FOLDER}/{number}{TAKEN}"])
        self._taken.pop(number, None)
