"""The mailbox of a run: other processes change its queries and instances by files in its checkpoint.

    commands/NUMBER.json     what is asked, written by whoever asks
    commands/NUMBER.taken    the epoch that takes it up, written before that epoch is planned
    commands/NUMBER.answer   accepted in an epoch, or refused and why, written once that epoch is committed

A command counts as carried out once its epoch is planned, since a plan is carried out whatever happens. After a crash
a command that was taken up for an epoch without a plan is taken up again, and one whose epoch has a plan is answered:
so it is never lost and never carried out twice. Whoever asks may withdraw a command by removing its first file, as
long as it is not taken up.
"""

import logging
import time
from dataclasses import dataclass

from shoal.errors import ConfigError, GraphError, ShoalError
from shoal.model.control.messages import AddQuery, RemoveQuery, Repartition, ReplaceQuery
from shoal.model.control.partitioning import Merge, Regroup, Split
from shoal.model.query.graph import Graph
from shoal.runtimes.protocol import RemoteCommand
from shoal.runtimes.spark.state.checkpoint import StoredGraph
from shoal.storage.codec import Codec
from shoal.storage.directory import Directory
from shoal.storage.record import Record

LOG = logging.getLogger("shoal")
FOLDER = "commands"
ASKED, TAKEN, ANSWER = ".json", ".taken", ".answer"
LOOK_INTERVAL_S = 0.2
"""How often a run looks for new commands at most: epochs may follow each other faster."""
KEPT_ANSWERS = 100


@dataclass(frozen=True)
class Answer:
    """What became of a command: the epoch that carried it out, or the reason why none did."""

    epoch: int | None
    reason: str = ""


@dataclass(frozen=True)
class Add:
    """A request to run the one query of a graph as well."""

    graph: StoredGraph


@dataclass(frozen=True)
class Replace:
    """A request to run the one query of a graph instead of the one that has its name."""

    graph: StoredGraph


@dataclass(frozen=True)
class Remove:
    """A request to stop a query."""

    name: str


@dataclass(frozen=True)
class Taken:
    """The mark beside a request: which epoch takes it up."""

    epoch: int


Request = Add | Replace | Remove | Split | Merge | Regroup
FORMAT = 2
REQUESTS = Record(
    Codec[Request]([Add, Replace, Remove, Split, Merge, Regroup], format=FORMAT), "command", "ask for it again"
)
MARKS = Record(
    Codec([Taken], format=FORMAT), "file", "remove it, and the command beside it if that has been carried out"
)
ANSWERS = Record(Codec([Answer], format=FORMAT), "answer", "look at the queries of the run to see what became of it")


def request(command: RemoteCommand) -> Request:
    """A command as it is written."""
    if isinstance(command, Repartition):
        if len(command.changes) != 1 or command.worker_of:
            raise ConfigError("another process may ask for one change of the instances at a time, and for no workers")
        return command.changes[0]
    if isinstance(command, RemoveQuery):
        return Remove(command.name)
    graph = StoredGraph.of(Graph.of([command.query]))
    return Add(graph) if isinstance(command, AddQuery) else Replace(graph)


def command_of(asked: Request) -> RemoteCommand:
    """The command that a request stands for; raises where its graph is not that of one query."""
    if isinstance(asked, Remove):
        return RemoveQuery(asked.name)
    if isinstance(asked, Split | Merge | Regroup):
        return Repartition((asked,))
    queries = list(asked.graph.graph().queries.values())
    if len(queries) != 1:
        raise GraphError(f"a command must have one query; got {len(queries)}")
    return AddQuery(queries[0]) if isinstance(asked, Add) else ReplaceQuery(queries[0])


class Letters:
    """The asking side: put a command into the mailbox of a run, and look for the answer."""

    def __init__(self, checkpoint: str) -> None:
        """Name the run by its checkpoint."""
        self._directory = Directory(checkpoint)

    def ask(self, command: RemoteCommand) -> str:
        """Put a command in; returns its number. Numbers grow with time, which is the order of carrying out."""
        number = f"{time.time_ns():020d}"
        self._directory.write(f"{FOLDER}/{number}{ASKED}", REQUESTS.encode(request(command)))
        return number

    def answer(self, number: str) -> Answer | None:
        """The answer, if it is there; it is taken out."""
        name = f"{FOLDER}/{number}{ANSWER}"
        try:
            found = ANSWERS.decode(self._directory.read(name), f"{self._directory.uri}/{name}")
        except FileNotFoundError:
            return None
        self._directory.delete([name])
        return found

    def withdraw(self, number: str) -> bool:
        """Take a command back; False where it has been taken up, so that its answer will come."""
        self._directory.delete([f"{FOLDER}/{number}{ASKED}"])
        return not self._directory.exists(f"{FOLDER}/{number}{TAKEN}")

    def is_open(self, number: str) -> bool:
        """Whether somebody has taken a command up and not answered yet."""
        return self._directory.exists(f"{FOLDER}/{number}{TAKEN}")


class Mailbox:
    """The side of the run: take commands up for an epoch, answer them once it is committed."""

    def __init__(self, checkpoint: str) -> None:
        """Open the mailbox of a checkpoint; nothing is read yet."""
        self._directory = Directory(checkpoint)
        self._taken: dict[str, int] = {}
        self._look_at_s = 0.0

    def recover(self, last: int, *, planned: bool) -> None:
        """After a restart: answer what a committed epoch has done, and forget what no plan knows of.

        `planned`: whether the epoch after the last one committed has a plan.
        """
        for name in self._directory.names(FOLDER):
            if not name.endswith(TAKEN):
                continue
            number = name.removesuffix(TAKEN)
            try:
                content = self._directory.read(f"{FOLDER}/{name}")
            except FileNotFoundError:
                continue
            epoch = MARKS.decode(content, f"{self._directory.uri}/{FOLDER}/{name}").epoch
            if epoch <= last + planned:
                self._taken[number] = epoch
            else:
                self._directory.delete([f"{FOLDER}/{name}"])
        self.answer(last)

    def take(self, epoch: int, *, at_once: bool = False) -> list[tuple[str, RemoteCommand]]:
        """The commands that an epoch takes up, oldest first; one that cannot be read is refused here."""
        now_s = time.monotonic()
        if now_s < self._look_at_s and not at_once:
            return []
        self._look_at_s = now_s + LOOK_INTERVAL_S
        names = self._directory.names(FOLDER)
        waiting = [name.removesuffix(ASKED) for name in names if name.endswith(ASKED)]
        taken = []
        for number in waiting:
            if number in self._taken:
                continue
            command = self._read(number)
            if command is not None and self._take(number, epoch):
                taken.append((number, command))
        return taken

    def _read(self, number: str) -> RemoteCommand | None:
        try:
            name = f"{FOLDER}/{number}{ASKED}"
            return command_of(REQUESTS.decode(self._directory.read(name), f"{self._directory.uri}/{name}"))
        except FileNotFoundError:
            return None
        except ShoalError as error:
            self.refuse(number, str(error))
            return None

    def _take(self, number: str, epoch: int) -> bool:
        """Take a command up unless it is withdrawn meanwhile: of the two who look, one sees what the other did."""
        self._directory.write(f"{FOLDER}/{number}{TAKEN}", MARKS.encode(Taken(epoch)))
        if not self._directory.exists(f"{FOLDER}/{number}{ASKED}"):
            self._directory.delete([f"{FOLDER}/{number}{TAKEN}"])
            return False
        self._taken[number] = epoch
        return True

    def refuse(self, number: str, reason: str) -> None:
        """Answer that a command is not carried out. It goes before the answer comes: a crash must not revive it."""
        LOG.warning("a command from outside was refused: %s", reason)
        self._directory.delete([f"{FOLDER}/{number}{ASKED}"])
        self._write_answer(number, Answer(None, reason))

    def answer(self, last: int) -> None:
        """Answer the commands of all epochs that are committed; what a crash interrupts is done again."""
        done = [(number, epoch) for number, epoch in self._taken.items() if epoch <= last]
        for number, epoch in done:
            self._write_answer(number, Answer(epoch))
        if done:
            answers = [name for name in self._directory.names(FOLDER) if name.endswith(ANSWER)]
            self._directory.delete(f"{FOLDER}/{name}" for name in answers[:-KEPT_ANSWERS])

    def _write_answer(self, number: str, answer: Answer) -> None:
        self._directory.write(f"{FOLDER}/{number}{ANSWER}", ANSWERS.encode(answer))
        self._directory.delete([f"{FOLDER}/{number}{ASKED}", f"{FOLDER}/{number}{TAKEN}"])
        self._taken.pop(number, None)
