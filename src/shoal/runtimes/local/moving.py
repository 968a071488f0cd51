"""Instances that change their worker while everything goes on.

A lane is divided among workers: a split node in front of each input sends rows to the worker that owns their instance,
and every worker has a lane node with the state of the instances it owns. Who owns what is a list of numbers in which
only the owner of an instance may write its entry.

To move an instance, the worker that is to have it invites it: it writes to the owner how far it has told those behind
it that event time is closed, and tells no more until the guest is there. The owner, once it is as far, hands the state
over, names the new owner, and from then on passes on whatever still comes to it. The new owner keeps the instance as a
guest, with a clock of its own, until every split node has seen the change and nothing can come by the old way any more;
then the guest joins the others. Nobody ever waits for anybody, no row is overtaken by the closing of its window, and no
answer by what is told of event time.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.block import Block
from shoal.kernels.table import INSTANCE
from shoal.query.lane import Feed, Lane
from shoal.query.program import Input
from shoal.runtimes.local.channel import Channel, Packet, Stamp
from shoal.runtimes.local.lanestate import LaneState
from shoal.runtimes.local.node import EMPTY, Node
from shoal.runtimes.local.state import LaneNode


class Invitation(NamedTuple):
    """A worker wants an instance, and has told those behind it that event time is closed up to a mark."""

    instance: int
    target: int
    told_us: int


class Arrival(NamedTuple):
    """A guest with its state."""

    instance: int
    state: LaneState


class Passed(NamedTuple):
    """Rows of a guest that came to its old owner."""

    instance: int
    port: int
    block: Block


class Closed(NamedTuple):
    """How far event time is closed for rows that may still be passed on."""

    instance: int
    mark_us: int


class Settled(NamedTuple):
    """Nothing of a guest will come by the old way any more."""

    instance: int


Message = Invitation | Arrival | Passed | Closed | Settled


@dataclass
class Ownership:
    """Who owns the instances of a lane; `versions[w]` counts how often worker w has given instances away.

    `letters[w][v]` are what worker v has for worker w, in order, with one writer and one reader. `moves` and
    `moved_bytes` count what each worker has given away.
    """

    owner: NDArray[np.int64]
    workers: int
    versions: list[int] = field(default_factory=list)
    letters: list[list[deque[Message]]] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)
    moved_bytes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Nothing has moved yet."""
        self.moved_bytes = [0] * self.workers
        self.versions = [0] * self.workers
        self.moves = [0] * self.workers
        self.letters = [[deque() for _ in range(self.workers)] for _ in range(self.workers)]


class MovingSplit(Node):
    """Sends the rows of each instance to the worker that owns it, and tells workers when it has seen them give away."""

    def __init__(self, ownership: Ownership, source: Channel, home: int = 0) -> None:
        """Behind a channel; output w is that of worker w."""
        super().__init__("split", [source], home)
        self.ownership = ownership
        self._seen = list(ownership.versions)

    @property
    def waiting(self) -> bool:
        """Whether rows have come, or an instance has been given away."""
        return super().waiting or self._seen != self.ownership.versions

    def turn(self, events: int) -> int:
        """Divide what waits."""
        taken = 0
        while (packet := self._take(0, taken, events)) is not None:
            self._divide(packet)
            taken += packet.block.length
        self._acknowledge()
        self.consumed += taken
        return taken

    def _divide(self, packet: Packet) -> None:
        block = packet.block
        self.produced += block.length
        owner = self.ownership.owner[block.columns[INSTANCE]] if block.length else None
        for worker, channel in enumerate(self.outputs):
            part = EMPTY if owner is None else block.take(np.flatnonzero(owner == worker))
            channel.write(part if part.length else EMPTY, packet.stamp)

    def _acknowledge(self) -> None:
        """Versions are read before rows are divided again: what follows goes by a map at least as new."""
        versions = list(self.ownership.versions)
        for worker, version in enumerate(versions):
            if version != self._seen[worker]:
                channel = self.outputs[worker]
                channel.write(EMPTY, Stamp(self.inputs[0].watermark_us, 0.0, None, version))
        self._seen = versions


@dataclass
class _Guest:
    """An instance whose old owner may still pass rows on."""

    state: LaneState
    promised_us: int
    settled: bool = False


@dataclass
class _Leaving:
    """An instance that was given away: to whom, by which change of owners, and what was promised since."""

    target: int
    version: int
    promised_us: int


class MovingLane(LaneNode):
    """The part of a lane that one worker has; instances come and go."""

    def __init__(
        self,
        lane: Lane,
        feeds: Sequence[tuple[Feed, Channel]],
        inputs: Mapping[str, Input],
        ownership: Ownership,
        home: int,
    ) -> None:
        """A part behind the channels of its feeds."""
        super().__init__(lane, feeds, inputs, home)
        self.ownership = ownership
        self._orders: deque[int] = deque()
        self._invited: dict[int, int] = {}
        self._wanted: list[Invitation] = []
        self._leaving: dict[int, _Leaving] = {}
        self._guests: dict[int, _Guest] = {}
        self._seen = [0] * len(self.inputs)
        self._own = {number for number, owner in enumerate(ownership.owner.tolist()) if owner == home}

    def invite(self, instance: int) -> None:
        """Ask for an instance of another worker; may be called by any thread."""
        self._orders.append(instance)

    @property
    def waiting(self) -> bool:
        """Whether rows, orders or letters wait."""
        return super().waiting or bool(self._orders) or any(self.ownership.letters[self.home])

    @property
    def state_bytes(self) -> int:
        """Memory of what the node remembers, guests included."""
        return super().state_bytes + sum(guest.state.nbytes for guest in list(self._guests.values()))

    @property
    def busy(self) -> bool:
        """Whether an instance is on its way in or out."""
        return bool(self._orders or self._invited or self._wanted or self._leaving or self._guests)

    def turn(self, events: int) -> int:
        """Take rows in and answer; then invite and give away what was asked for."""
        taken = super().turn(events)
        self._send_invitations()
        self._give_away()
        self._pass_marks()
        return taken

    def _send_invitations(self) -> None:
        while self._orders:
            instance = self._orders.popleft()
            owner = int(self.ownership.owner[instance])
            if owner != self.home and instance not in self._invited:
                self._invited[instance] = self._told_us
                self._letters(owner).append(Invitation(instance, self.home, self._told_us))

    def _give_away(self) -> None:
        """Answer invitations that can be answered now; the others wait, or go on to the owner."""
        waiting, self._wanted = self._wanted, []
        for invitation in waiting:
            instance, target, told_us = invitation
            owner = int(self.ownership.owner[instance])
            if owner == target == self.home:
                self._invited.pop(instance, None)
            elif owner != self.home:
                self._letters(owner).append(invitation)
            elif instance not in self._own or self._state.mark_us < told_us:
                self._wanted.append(invitation)  # not before it has come here and settled, and is as far
            else:
                self._hand_over(instance, target)

    def _hand_over(self, instance: int, target: int) -> None:
        """The state first, then the new owner's name, then the number of the change."""
        self._own.remove(instance)
        state = self._state.take_out(instance)
        self.ownership.moved_bytes[self.home] += state.nbytes
        self._letters(target).append(Arrival(instance, state))
        self.ownership.owner[instance] = target
        self.ownership.versions[self.home] += 1
        self._leaving[instance] = _Leaving(target, self.ownership.versions[self.home], self._state.mark_us)

    def _letters(self, target: int) -> deque[Message]:
        return self.ownership.letters[target][self.home]

    def _take(self, number: int, taken: int, events: int) -> Packet | None:
        packet = super()._take(number, taken, events)
        if packet is not None:
            self._seen[number] = max(self._seen[number], packet.stamp.version)
        self._read_letters()  # whoever sends rows of a guest has been told of it after its state was handed over
        return packet

    def _read_letters(self) -> None:
        for letters in self.ownership.letters[self.home]:
            while letters:
                message = letters.popleft()
                if isinstance(message, Invitation):
                    self._wanted.append(message)
                elif isinstance(message, Arrival):
                    self._invited.pop(message.instance, None)
                    self._guests[message.instance] = _Guest(message.state, message.state.mark_us)
                elif isinstance(message, Passed):
                    self._add_guest(message.instance, message.port, message.block)
                elif isinstance(message, Closed):
                    self._guests[message.instance].promised_us = message.mark_us
                else:
                    self._guests[message.instance].settled = True

    def _add_guest(self, instance: int, port: int, block: Block) -> None:
        """Bring rows that have memory of their own to a guest's state."""
        self._refuse(self._guests[instance].state.add(port, block, shared=False))

    def _add(self, port: int, block: Block, packet: Packet) -> None:
        """Rows of guests go to their own state, rows of instances that have left are passed on."""
        special = [*self._guests, *self._leaving]
        owners = block.columns[INSTANCE]
        if special and np.isin(owners, special).any():
            for instance in special:
                rows = np.flatnonzero(owners == instance)
                if rows.size and instance in self._guests:
                    self._add_guest(instance, port, block.take(rows))
                elif rows.size:
                    self._letters(self._leaving[instance].target).append(Passed(instance, port, block.take(rows)))
            block = block.where(~np.isin(owners, special))
        if block.length:
            super()._add(port, block, packet)

    def _answers(self, mark_us: int) -> list[Block]:
        """Answers of what is settled here, and of guests as far as their old owners have promised."""
        found = super()._answers(mark_us)
        for instance, guest in list(self._guests.items()):
            limit = self._state.mark_us if guest.settled else min(self._state.mark_us, guest.promised_us)
            answers = guest.state.go_on(limit)
            if answers.length:
                found.append(answers)
            if guest.settled and guest.state.mark_us == self._state.mark_us:
                self._state.absorb(guest.state)
                self._own.add(instance)
                del self._guests[instance]
        return found

    def _closed_us(self) -> int:
        marks = [guest.state.mark_us for guest in self._guests.values()]
        return max(self._told_us, min([self._state.mark_us, *marks, *self._invited.values()]))

    def _pass_marks(self) -> None:
        """Tell new owners how far this one is, and when nothing more can come."""
        for instance, leaving in list(self._leaving.items()):
            letters = self._letters(leaving.target)
            if self._state.mark_us > leaving.promised_us:
                leaving.promised_us = self._state.mark_us
                letters.append(Closed(instance, leaving.promised_us))
            if all(seen >= leaving.version for seen in self._seen):
                letters.append(Settled(instance))
                del self._leaving[instance]
                self.ownership.moves[self.home] += 1
