"""Convoys: all crossings of a rebinding; between two hosts one shipment after another leaves, by urgency."""

from collections.abc import Callable, Sequence

from shoal.mechanisms.plan import Batch, Queue
from shoal.mechanisms.transfer import STATIC_BYTES
from shoal.model.control.fragment import NO_DEADLINE_US, Ids
from shoal.runtimes.migration.relocation import Shipment
from shoal.runtimes.simulated.network.crossing import Crossing, stops_together
from shoal.runtimes.simulated.network.wires import Bytes, Wires

KEY_BYTES = 8


class Convoy:
    """Sends the shipments of crossings, in the order of their queues.

    `host_of` has the host of every core; `now_us` is the newest event time, by which deadlines are judged;
    `bytes_per_s` is the bandwidth between two hosts.
    """

    def __init__(
        self,
        wires: Wires,
        host_of: Sequence[int],
        now_us: Callable[[], int],
        bytes_per_s: Callable[[int, int], float],
    ) -> None:
        """No crossing yet."""
        self.crossings: list[Crossing] = []
        self._wires, self._host_of, self._now_us, self._bytes_per_s = wires, host_of, now_us, bytes_per_s
        self._busy: dict[tuple[int, int], Crossing] = {}
        self._ending = False
        self._kicking = False
        self._fixed: set[int] = set()
        self._sending: dict[int, Bytes | None] = {}

    def interrupt(self, host: int) -> int:
        """A host is gone for good: the crossings from there end with what has arrived; returns the rows lost."""
        lost = 0
        for crossing in [each for each in self.crossings if not each.relocation.finished]:
            if self._host_of[crossing.source.core] == host:
                lost += crossing.interrupt(self._passed)
        self._busy = {way: each for way, each in self._busy.items() if host not in way}
        self._notice()
        return lost

    def end(self) -> None:
        """The time for all crossings is over: their targets go on with what has arrived, and the rest is dropped.

        An instance that has not stopped yet does so first, so that no row is lost.
        """
        self._ending = True
        self.kick()

    def _end_stopped(self) -> None:
        ended = [each for each in self.crossings if each.relocation.stopped and not each.relocation.finished]
        for crossing in ended:
            crossing.interrupt(self._passed)
            self._busy = {way: each for way, each in self._busy.items() if each is not crossing}
        self._ending = any(not each.relocation.finished for each in self.crossings)
        if ended:
            self._notice()

    def _passed(self, shipment: Shipment) -> float:
        """The share of a shipment that has passed; what has not never arrives."""
        flow = self._sending.pop(id(shipment), None)
        if flow is None:
            return 0.0
        passed = flow.passed(self._wires.now_s)
        self._wires.cancel(flow)
        return passed

    def kick(self) -> None:
        """Send whatever can be sent now."""
        if self._kicking:  # a shipment that leaves may let others leave: once is enough
            return
        self._kicking = True
        if self._ending:
            self._end_stopped()
        ways = sorted({self._way(each) for each in self.crossings})
        while any(self._sent(way) for way in ways):
            pass
        self._kicking = False

    def ask(self, crossing: Crossing, keys: Ids) -> None:
        """Send a request for keys from the target to the source."""
        source, target = self._way(crossing)

        def asked() -> None:
            answer = crossing.relocation.ask(keys)
            if answer is not None:
                self._wires.send(source, target, answer.nbytes, lambda: crossing.arrive(answer))
            self.kick()

        self._wires.send(target, source, STATIC_BYTES + KEY_BYTES * keys.size, asked)

    def complete(self, batch: Batch) -> bool:
        """Whether a batch has arrived with all of its transfers."""
        waiting = (each for each in self.crossings if each.belongs_to(batch) and each.completed is not batch)
        return all(each.relocation.finished for each in waiting)

    def _way(self, crossing: Crossing) -> tuple[int, int]:
        return self._host_of[crossing.source.core], self._host_of[crossing.target.core]

    def _sent(self, way: tuple[int, int]) -> bool:
        """Send the most urgent shipment between two hosts, if none is leaving."""
        if way in self._busy:
            return False
        mine = [each for each in self.crossings if self._way(each) == way and not each.relocation.finished]
        ranked = [(self._rank(each, way), place, each) for place, each in enumerate(mine) if each.next_queue()]
        for _, _, crossing in sorted(ranked, key=lambda entry: entry[:2]):
            if self._in_position(crossing):
                shipment = crossing.leave()
                if shipment is not None:
                    self._send(way, crossing, shipment)
                    return True
            return False  # its source has to come to a certain place first
        return False

    def _in_position(self, crossing: Crossing) -> bool:
        """Whether a crossing's next batch can leave; instances that stop together do so at the same version."""
        batch = crossing.relocation.next_batch
        if batch is not None and stops_together(batch) and id(batch) not in self._fixed:
            stopping = [each for each in self.crossings if each.belongs_to(batch) and not each.relocation.finished]
            if any(each.relocation.next_batch is not batch for each in stopping):
                return False
            self._fixed.add(id(batch))
            for each in stopping:
                each.in_position()
        return crossing.in_position()

    def _rank(self, crossing: Crossing, way: tuple[int, int]) -> tuple[float, int, int]:
        """The queue of a crossing's next shipment; one with a deadline before those fetched, if it would be late."""
        batch = crossing.relocation.next_batch
        rank = 0 if batch is None else batch.rank
        queue, due_us = crossing.next_queue() or (Queue.NORMAL, NO_DEADLINE_US)
        if queue is Queue.DEADLINE and due_us != NO_DEADLINE_US:
            sending_us = 1e6 * crossing.station.state_bytes / self._bytes_per_s(*way)
            if due_us - sending_us <= self._now_us():
                return Queue.FETCH - 0.5, due_us, rank
        return float(queue), due_us, rank

    def _notice(self) -> None:
        """Let crossings go on that waited for others of their batch."""
        for crossing in list(self.crossings):
            if not crossing.relocation.finished:
                crossing.noticed()

    def _send(self, way: tuple[int, int], crossing: Crossing, shipment: Shipment) -> None:
        self._busy[way] = crossing

        def gone() -> None:
            if self._busy.get(way) is crossing:
                del self._busy[way]
            self.kick()

        def arrived() -> None:
            self._sending.pop(id(shipment), None)  # an interruption has asked for it
            crossing.arrive(shipment)
            if shipment.batch is not None and stops_together(shipment.batch):
                self._notice()
            self.kick()

        self._sending[id(shipment)] = None
        self._sending[id(shipment)] = self._wires.send(*way, shipment.nbytes, arrived, gone)
