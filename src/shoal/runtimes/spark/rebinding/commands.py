"""Commands of a run, from its own process and from files, and how they are applied."""

import contextlib
import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from shoal.errors import ShoalError
from shoal.kernels.expression.failing import raised
from shoal.model.control.messages import Command
from shoal.runtimes.spark.driver.position import MECHANISMS, Position, changed
from shoal.runtimes.spark.rebinding.mailbox import Mailbox
from shoal.runtimes.spark.rebinding.migration import Limits, advanced


@dataclass
class Commands:
    """Commands that wait for the next epoch.

    `streams`: those that have a source. `mechanism`: for rebindings that name none. `refused` is called with each
    invalid command of this process; the mailbox replies to those from files.
    """

    mailbox: Mailbox
    streams: set[str]
    refused: Callable[[Command, str], None]
    mechanism: str = MECHANISMS[0]
    _waiting: queue.Queue[Command] = field(default_factory=queue.Queue)

    def put(self, command: Command) -> None:
        """Request a change; called from any thread."""
        self._waiting.put(command)

    def has_waiting(self) -> bool:
        """Whether a command waits for an epoch."""
        return not self._waiting.empty() or self.mailbox.has_waiting()

    def carried_out(self, epoch: int, position: Position, limits: Limits) -> Position:
        """The next position: with announced moves, waiting commands, and as many moves as the limits allow."""
        return advanced(self._changed(epoch, position.arrived()), limits)

    def _changed(self, epoch: int, position: Position) -> Position:
        for number, asked in self.mailbox.take(epoch):
            try:
                position = changed(position, asked, self.streams)
            except ShoalError as error:
                self.mailbox.refuse(number, str(error))
            except Exception as error:  # noqa: BLE001  (what comes from a file must not stop the run)
                self.mailbox.refuse(number, f"it is no command for this run: {raised(error)}")
        for command in self._taken():
            try:
                position = changed(position, command, self.streams, self.mechanism)
            except ShoalError as error:
                self.refused(command, str(error))
        return position

    def refuse(self, epoch: int, reason: str) -> None:
        """Refuse all waiting commands."""
        for command in self._taken():
            self.refused(command, reason)
        for number, _ in self.mailbox.take(epoch, at_once=True):
            self.mailbox.refuse(number, reason)

    def _taken(self) -> Iterator[Command]:
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._waiting.get_nowait()
