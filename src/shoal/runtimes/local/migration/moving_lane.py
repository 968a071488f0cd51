"""Instances that change their worker while everything goes on.

A lane is divided among workers: a split node in front of each input sends rows to the worker that owns their instance,
and every worker has a lane node with the state of the instances it owns. Who owns what is one value, published as a
whole; only the owner of an instance may name another.

To move an instance, the worker that is to have it invites it: it writes to the owner how far it has told those behind
it that event time is closed, and tells no more until the guest is there. The owner, once it is as far, hands the state
over, names the new owner, and from then on passes on whatever still comes to it. The new owner keeps the instance as a
guest, with a clock of its own, until every split node has seen the change and nothing can come by the old way any more;
then the guest joins the others. What comes to a guest by the new way is held until nothing can come by the old one:
rows are taken in the order in which they were sent. Nobody ever waits for anybody, no row is overtaken by the closing
of its window, and no answer by what is told of event time.
"""

import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Feed, Lane
from shoal.compiler.program import Input
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.runtimes.local.dataflow.channel import Channel, Packet
from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.dataflow.load import Load
from shoal.runtimes.local.dataflow.node import EMPTY
from shoal.runtimes.local.dataflow.sleep import Sleep
from shoal.runtimes.local.migration.ownership import (
    Arrival,
    Closed,
    Gone,
    HandOver,
    Invitation,
    Message,
    Ownership,
    Passed,
    Settled,
)
from shoal.runtimes.local.migration.reassignment import Reassigner, Reassignment
from shoal.runtimes.local.migration.transit import Guest, Leaving


class MovingLane(LaneNode):
    """The part of a lane that one worker has; instances come and go.

    `load` are its books, `moving_s` the time spent on moves so far.
    """

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
        self.load = Load(ownership.owner.size)
        self.moving_s = 0.0
        self._state = LaneState(lane, load=self.load, slots=ownership.slots)
        self._orders: deque[int] = deque()
        self._invited: dict[int, int] = {}
        self._wanted: list[Invitation] = []
        self._leaving: dict[int, Leaving] = {}
        self._guests: dict[int, Guest] = {}
        self._seen = [0] * len(self.inputs)
        mine, declared = np.flatnonzero(ownership.owner == home), len(lane.instances)
        self._own = set(mine[mine < declared].tolist())
        self._reassigner = Reassigner(self._state.kernel, ownership, home, mine[mine >= declared].tolist())
        self.sleep = Sleep(phase=0 if self._own else 1)
        ownership.sleep(home, asleep=self.sleep.asleep)

    def invite(self, instance: int) -> None:
        """Ask for an instance of another worker; may be called by any thread."""
        self._orders.append(instance)

    def reassign(self, order: Reassignment) -> None:
        """Give the keys of some instances to others; may be called by any thread."""
        self._reassigner.asked.append(order)

    @property
    def waiting(self) -> bool:
        """Whether rows or letters wait, or orders that can be carried out."""
        if super().waiting or any(self.ownership.letters[self.home]) or self._reassigner.asked:
            return True
        return bool(self._orders) and (self.sleep.asleep or self.sleep.heard)

    @property
    def phase(self) -> int:
        """Whether it sleeps, see `Sleep`."""
        return self.sleep.phase

    @property
    def state_bytes(self) -> int:
        """Memory of what the node remembers, guests included."""
        return super().state_bytes + sum(guest.state.nbytes for guest in list(self._guests.values()))

    @property
    def busy(self) -> bool:
        """Whether an instance is on its way in or out, or is being split or merged."""
        moving = self._orders or self._invited or self._wanted or self._leaving or self._guests
        return bool(moving) or self._reassigner.busy

    @property
    def between(self) -> bool:
        """Whether something is on its way between two workers, so that owners cannot be changed at once."""
        if self._orders or self._invited or self._wanted or self._leaving or any(self.ownership.letters[self.home]):
            return True
        return any(guest.open for guest in list(self._guests.values()))

    def turn(self, events: int) -> int:
        """Take rows in and answer; then invite and give away what was asked for."""
        began_s, moving_s = time.thread_time(), self.moving_s
        self._read_letters()
        taken = super().turn(events)
        if self.busy:
            began = time.perf_counter()
            self._reassign()
            self._send_invitations()
            self._give_away()
            self._pass_marks()
            self.moving_s += time.perf_counter() - began
        elif not self._own and not self.sleep.asleep:
            self._fall_asleep()
        self.load.charge(max(0.0, time.thread_time() - began_s - (self.moving_s - moving_s)))
        self._count_rows()
        return taken

    def _count_rows(self) -> None:
        self.load.rows = sum((guest.state.counts for guest in self._guests.values()), self._state.counts)

    def _fall_asleep(self) -> None:
        """Splits send nothing more before those in front of them may leave this one out."""
        self.ownership.sleep(self.home)
        self.sleep.fall()
        super()._tell(EMPTY, None)

    def _wake_up(self) -> None:
        """Whoever sees the new version sees also that this one no longer sleeps, so that comes first."""
        self.sleep.wake(self.ownership.now.versions[self.home] + 1)
        self.ownership.wake(self.home)
        self._tell(EMPTY, None)

    def _tell(self, answers: Block, marker_s: float | None) -> None:
        if not self.sleep.asleep:
            super()._tell(answers, marker_s)

    def _watermark(self) -> int:
        awake = not self.sleep.asleep and self.sleep.told(self._seen)
        return super()._watermark() if awake else self._state.mark_us

    def _reassign(self) -> None:
        if self._reassigner.busy:
            missing = self._reassigner.go_on(self._state, self._own, self._seen)
            self._orders.extend(number for number in missing if number not in self._orders)

    def _send_invitations(self) -> None:
        if self._orders and self.sleep.asleep:
            self._wake_up()
        self.sleep.known = self.sleep.heard
        while self._orders and self.sleep.known:
            instance = self._orders.popleft()
            owner = int(self.ownership.owner[instance])
            if owner != self.home and instance not in self._invited:
                self._invited[instance] = self._told_us
                self._letters(owner).append(Invitation(instance, self.home, self._told_us))

    def _give_away(self) -> None:
        """Answer invitations that can be answered now; the others wait, or go on to the owner."""
        waiting, self._wanted = self._wanted, []
        ready: dict[int, int] = {}
        kept, unused = self._reassigner.kept if waiting else set(), self._reassigner.unused
        for invitation in waiting:
            instance, target, told_us = invitation
            owner = ready.get(instance, int(self.ownership.owner[instance]))
            if owner == target == self.home:
                self._invited.pop(instance, None)
            elif owner != self.home:
                self._letters(owner).append(invitation)
            elif instance in unused:
                self._letters(target).append(Gone(instance))
            elif instance not in self._own or instance in kept or self._state.mark_us < told_us:
                self._wanted.append(invitation)  # not before it has come here and settled, and is as far
            else:
                ready[instance] = target
        if ready:
            self._hand_over(ready)

    def _hand_over(self, target_of: Mapping[int, int]) -> None:
        """The states first, then the names of the new owners, all at once."""
        for instance, state in self._state.take_out(target_of).items():
            self._own.remove(instance)
            state_bytes = state.nbytes
            self.ownership.moved_bytes[self.home] += state_bytes
            arrival = Arrival(instance, state, self.home, state_bytes, time.perf_counter())
            self._letters(target_of[instance]).append(arrival)
        version = self.ownership.give(self.home, target_of)
        for instance, target in target_of.items():
            self._leaving[instance] = Leaving(target, version, self._state.mark_us, set(range(len(self.inputs))))

    def _letters(self, target: int) -> deque[Message]:
        return self.ownership.letters[target][self.home]

    def _take(self, number: int, taken: int, events: int) -> Packet | None:
        packet = super()._take(number, taken, events)
        if packet is not None:
            self._seen[number] = max(self._seen[number], packet.stamp.version)
        self._read_letters()  # whoever sends rows of a guest has been told of it after its state was handed over
        return packet

    def _read_letters(self) -> None:
        boxes = self.ownership.letters[self.home]
        for letters in boxes if any(boxes) else ():
            while letters:
                self._read(letters.popleft())

    def _read(self, message: Message) -> None:
        if isinstance(message, Invitation):
            self._wanted.append(message)
            return
        if isinstance(message, Arrival):
            guest = self._welcome(message.instance, message.state, set(range(len(self.inputs))))
            guest.source, guest.state_bytes = message.source, message.state_bytes
            guest.frozen_s = time.perf_counter() - message.left_s
            return
        if isinstance(message, Gone):
            self._invited.pop(message.instance, None)
            return
        guest = self._guests[message.instance]
        if isinstance(message, Passed):
            self._add_to(guest, message.number, message.block)
        elif isinstance(message, Closed):
            guest.promised_us = message.mark_us
        else:
            for block in guest.settle(message.number):
                self._add_to(guest, message.number, block)

    def _welcome(self, instance: int, state: LaneState, open_: set[int]) -> Guest:
        state.load = self.load
        self._invited.pop(instance, None)
        self._reassigner.unused.discard(instance)
        self._guests[instance] = guest = Guest(state, state.mark_us, open_)
        return guest

    def _add_to(self, guest: Guest, number: int, block: Block) -> None:
        """Bring rows that have memory of their own to a guest's state."""
        self._refuse(guest.state.add(self._ports[number], block, shared=False))

    def _add(self, number: int, block: Block, packet: Packet) -> None:
        """Rows of guests go to their own state, rows of instances that have left are passed on."""
        if self._reassigner.busy:
            block = self._reassigner.arriving(self._ports[number], block, self.load)
        if self._guests or self._leaving:
            chosen = self._among(block, {*self._guests, *self._leaving})
            if chosen.any():
                began = time.perf_counter()
                parted = list(apart(block.take(np.flatnonzero(chosen))))
                block = block.where(~chosen)
                self.moving_s += time.perf_counter() - began
                for instance, rows in parted:
                    self._add_special(instance, number, rows)
        if block.length:
            super()._add(number, block, packet)

    def _among(self, block: Block, instances: Collection[int]) -> NDArray[np.bool_]:
        """Which rows of a block are of some instances."""
        special = np.zeros(self.load.size, bool)
        special[list(instances)] = True
        return special[block.columns[INSTANCE]]

    def _add_special(self, instance: int, number: int, block: Block) -> None:
        guest = self._guests.get(instance)
        if guest is None:
            self._letters(self._leaving[instance].target).append(Passed(instance, number, block))
        elif number in guest.open:
            guest.hold(number, block, self._state.mark_us)
        else:
            self._add_to(guest, number, block)

    def _refuse(self, late: Block) -> None:
        super()._refuse(self.ownership.slots.labelled(late))

    def _answers(self, mark_us: int) -> list[Block]:
        """Answers of what is settled here, and of guests as far as their old owners have promised."""
        found = super()._answers(mark_us)
        for guest in self._guests.values():
            answers = guest.state.go_on(guest.limit_us(self._state.mark_us))
            if answers.length:
                found.append(answers)
        if self._guests:
            began = time.perf_counter()
            self._admit()
            self.moving_s += time.perf_counter() - began
        return found

    def _admit(self) -> None:
        """Guests that are as far as the others, and to whom nothing comes by an old way, join them."""
        here_us = self._state.mark_us
        joining = [i for i, guest in self._guests.items() if not guest.open and guest.state.mark_us == here_us]
        if joining:
            guests = [(instance, self._guests.pop(instance)) for instance in joining]
            self._state.absorb([guest.state for _, guest in guests])
            self._own.update(joining)
            self.ownership.settled[self.home].extend(
                HandOver(instance, guest.source, self.home, guest.state_bytes, guest.frozen_s, guest.late_s)
                for instance, guest in guests
                if guest.source is not None
            )

    def _closed_us(self) -> int:
        marks = [guest.state.mark_us for guest in self._guests.values()]
        return max(self._told_us, min([self._state.mark_us, *marks, *self._invited.values()]))

    def _pass_marks(self) -> None:
        """Tell new owners by which inputs nothing more can come, and then how far this one is."""
        for instance, leaving in list(self._leaving.items()):
            letters = self._letters(leaving.target)
            for number in [each for each in leaving.open if self._seen[each] >= leaving.version]:
                leaving.open.remove(number)
                letters.append(Settled(instance, number))
            if leaving.open and self._state.mark_us > leaving.promised_us:
                leaving.promised_us = self._state.mark_us
                letters.append(Closed(instance, leaving.promised_us))
            if not leaving.open:
                del self._leaving[instance]
                self.ownership.moves[self.home] += 1


def apart(block: Block) -> Iterator[tuple[int, Block]]:
    """The rows of each instance of a block, in their order."""
    instances = block.columns[INSTANCE]
    for instance in np.unique(instances).tolist():
        yield instance, block.take(np.flatnonzero(instances == instance))
