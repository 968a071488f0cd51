"""The network: stations of all instances, the channels between them, and the versions that pass through them."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.compiler.lane import Lane, Outlet
from shoal.compiler.program import Program
from shoal.compiler.spatial.lane_arrivals import lane_arrivals, merged_arrivals
from shoal.kernels.columns.block import Block
from shoal.kernels.kernel import NEVER_US
from shoal.model.control.histogram import Histogram
from shoal.model.control.snapshot import Arrivals
from shoal.model.query.graph import InstanceId
from shoal.model.query.schema import TIME
from shoal.runtimes.simulated.delay.model import DelayModel
from shoal.runtimes.simulated.input.task_plan import VALUE_BYTES
from shoal.runtimes.simulated.machine.machine import Machine
from shoal.runtimes.simulated.network.calendar import Action, Calendar
from shoal.runtimes.simulated.network.core_queues import CoreQueues
from shoal.runtimes.simulated.network.row_input import Addressed, Addresses, RowStep
from shoal.runtimes.simulated.network.station import FOREVER, Side, Station, Surroundings
from shoal.runtimes.simulated.network.wires import Bytes, Wires

Seconds = np.ndarray[tuple[int], np.dtype[np.float64]]
OUTSIDE = -1
"""The place of sources that no core reads."""


@dataclass(eq=False)
class Entry:
    """Something in a channel: it is delivered once it has arrived, and everything before it was delivered."""

    deliver: Action
    arrived: bool = False


@dataclass(eq=False)
class Sending:
    """Rows on their way between two hosts, to a side of a station."""

    sender: tuple[int, int]
    core: int
    version: int
    addressed: Addressed
    side: Side
    entry: Entry
    most_rows: int = FOREVER
    flow: Bytes | None = None


@dataclass
class Emitted:
    """Results since the last report, with their latencies: of all, and by table the sum and the number."""

    latency: Histogram = field(default_factory=Histogram)
    tables: dict[str, tuple[float, int]] = field(default_factory=dict)
    results: int = 0


class Network:
    """All stations of a program on a machine."""

    def __init__(
        self,
        program: Program,
        machine: Machine,
        delays: DelayModel,
        core_of: Mapping[InstanceId, int],
        source_cores: Mapping[str, int],
        results_at: Mapping[str, int] | None = None,
    ) -> None:
        """Everything is empty; it is 0. `results_at`: hosts that results of tables are sent to."""
        self._results_at, self._leaving = results_at or {}, 0
        self.program, self.machine = program, machine
        self.calendar = Calendar()
        self.wires, self.cores = Wires(machine, self.calendar), CoreQueues(machine, self.calendar)
        self.issued = 0
        self.emitted = Emitted()
        self.addresses = Addresses(program, {}, 0, clock=self._clock_us)
        self._due: list[float] = []
        self._read_us: list[int] = []
        self._least_us = 0
        self._newest: list[int] = []
        self._marks_of: dict[int, list[int]] = {lane.number: [] for lane in program.lanes}
        self._passed_of: dict[int, list[int]] = {lane.number: [] for lane in program.lanes}
        self._channels: dict[tuple[int, int, int, int], deque[Entry]] = {}
        self._sending: list[Sending] = []
        self._arrivals: list[Arrivals] = []
        self._source_cost = {stream: delays.stream(stream) for stream in program.inputs}
        self.source_cores = source_cores
        around = Surroundings(self.cores, self._watermark_us, self._emit, self._forward, self._refuse)
        self.stations: dict[tuple[int, int], Station] = {}
        for lane in program.lanes:
            for number, instance in enumerate(lane.instances if lane.kernel else ()):
                senders, cost = self._senders(lane), delays.lane(lane)
                self.stations[lane.number, number] = Station(lane, number, core_of[instance], senders, cost, around)

    @property
    def now_s(self) -> float:
        """The simulated time."""
        return self.calendar.now_s

    @property
    def newest_us(self) -> int:
        """The largest event time so far."""
        return self._newest[-1] if self._newest else NEVER_US

    @property
    def done(self) -> bool:
        """Whether everything that was issued has passed through all stations."""
        passed = all(station.forwarded == self.issued for station in self.stations.values())
        return passed and self.cores.idle and not self._leaving

    def host(self, core: int) -> int:
        """The host of a core."""
        return int(self.machine.worker_host[core])

    def issue(self, stream: str, step: RowStep) -> None:
        """Let the rows of a step enter, and its mark after them."""
        self.issued += 1
        version = self.issued
        self._due.append(step.due_s)
        self._read_us.append(round(self.now_s * 1e6))
        self._newest.append(max(self.newest_us, step.newest_us))
        for lane in self.program.lanes:
            mark_us, passed = lane.watermark_us(step.marks), self._passed_of[lane.number]
            self._marks_of[lane.number].append(mark_us)
            passed.append(max(mark_us, passed[-1]) if passed else mark_us)
        core, rows = self.source_cores.get(stream, OUTSIDE), sum(block.length for *_, block in step.rows)
        if core == OUTSIDE:
            self._entered(version, step, OUTSIDE)
        else:
            seconds = float(self._source_cost[stream].seconds(rows, 0, 0)) if rows else 0.0
            self.cores.submit(core, 0, lambda: (seconds, lambda: self._entered(version, step, core)))

    def _entered(self, version: int, step: RowStep, core: int) -> None:
        for addressed in step.rows:
            self._send((OUTSIDE, 0), core, version, addressed)
        for (lane, number), station in self.stations.items():
            if any(isinstance(feed.origin, str) for feed in station.lane.feeds):
                self._deliver_mark((OUTSIDE, 0), (lane, number), version)

    def _senders(self, lane: Lane) -> int:
        """The inputs of a station: all streams as one, and every instance of every lane before it."""
        streams = any(isinstance(feed.origin, str) for feed in lane.feeds)
        before = {feed.origin for feed in lane.feeds if isinstance(feed.origin, int)}
        return int(streams) + sum(len(self.program.lanes[number].instances) for number in before)

    def _send(
        self, sender: tuple[int, int], core: int, version: int, addressed: Addressed, most_rows: int = FOREVER
    ) -> None:
        """Send rows to the side or sides of a station that they belong to.

        `most_rows`: rows before the steps between; a step that makes more of them runs where they arrive.
        """
        lane, number, port, block = addressed
        station = self.stations[lane, number]
        if station.kernel.by_place:
            self._arrivals.append(lane_arrivals(station.lane, station.kernel.lift(port, block)))
        crossing = station.crossing
        parts = [(station.home, block)] if crossing is None else crossing.addressed(version, port, block)
        for side, rows in parts:
            entry = self._enter(sender, (lane, number), lambda s=side, r=rows: station.take(s, version, port, r))  # type: ignore[misc]
            sending = Sending(sender, core, version, (lane, number, port, rows), side, entry, most_rows)
            if core == OUTSIDE:
                self._arrive(sender, (lane, number), entry)
            else:
                self._ship(sending)

    def _ship(self, sending: Sending) -> None:
        rows = sending.addressed[3]
        self._sending.append(sending)

        def arrived() -> None:
            self._sending.remove(sending)
            self._arrive(sending.sender, sending.addressed[:2], sending.entry)

        size = min(rows.length, sending.most_rows) * VALUE_BYTES * len(rows.columns)
        sending.flow = self.wires.send(self.host(sending.core), self.host(sending.side.core), size, arrived)

    def lose(self, host: int) -> int:
        """Rows on their way to a host that is gone go where their instances are now; returns how many are lost.

        Those that come from the host are.
        """
        lost = 0
        for sending in list(self._sending):
            lane, number, _, rows = sending.addressed
            if host not in (self.host(sending.core), self.host(sending.side.core)):
                continue
            if sending.flow is not None:
                self.wires.cancel(sending.flow)
            self._sending.remove(sending)
            if self.host(sending.core) == host:
                lost += rows.length
                sending.entry.deliver = _nothing
                self._arrive(sending.sender, (lane, number), sending.entry)
                continue
            sending.side = self.stations[lane, number].home
            sending.entry.deliver = partial(self._deliver_again, sending)
            self._ship(sending)
        return lost

    def _deliver_again(self, sending: Sending) -> None:
        lane, number, port, rows = sending.addressed
        station = self.stations[lane, number]
        station.take(station.home, sending.version, port, rows)

    def _deliver_mark(self, sender: tuple[int, int], receiver: tuple[int, int], version: int) -> None:
        entry = self._enter(sender, receiver, lambda: self.stations[receiver].mark(version))
        self._arrive(sender, receiver, entry)

    def _enter(self, sender: tuple[int, int], receiver: tuple[int, int], deliver: Action) -> Entry:
        entry = Entry(deliver)
        self._channels.setdefault((*sender, *receiver), deque()).append(entry)
        return entry

    def _arrive(self, sender: tuple[int, int], receiver: tuple[int, int], entry: Entry) -> None:
        entry.arrived = True
        channel = self._channels[*sender, *receiver]
        while channel and channel[0].arrived:
            channel.popleft().deliver()

    def _watermark_us(self, lane: Lane, version: int) -> int:
        return self._marks_of[lane.number][version - 1]

    def _forward(self, station: Station, version: int) -> None:
        """All of a version has left a station."""
        sender = station.lane.number, station.number
        behind = {lane.number for lane, _ in self.program.feeds.get(station.lane.number, ()) if lane.kernel}
        for number in behind:
            for place in range(len(self.program.lanes[number].instances)):
                self._deliver_mark(sender, (number, place), version)

    def _refuse(self, station: Station, port: int, late: Block) -> None:
        self.addresses.refuse(station.lane, port, late)

    def _emit(self, station: Station, side: Side, results: Block, late: bool) -> None:
        """Write results, and send them on; note how late they are."""
        lane = station.lane
        labelled = lane.labelled(lane.with_constants(results))
        latencies_s = self.now_s - self._due_s(lane, results)
        if late:
            station.late_results += results.length
            station.emission_delay_s = max(station.emission_delay_s, float(latencies_s.max()))
            station.emission_delay_sum_s += float(latencies_s.sum())
        for outlet in lane.outlets:
            self._deliver(lane, outlet, side, labelled, self.now_s - latencies_s)
        sender = lane.number, station.number
        self._least_us = self._read_us[station.forwarded - 1] if station.forwarded else 0
        for addressed in self.addresses.taken(lane.number, labelled):
            self._send(sender, side.core, station.forwarded + 1, addressed, results.length)

    def _deliver(self, lane: Lane, outlet: Outlet, side: Side, labelled: Block, due_s: Seconds) -> None:
        """Write results of an outlet, once they are at the host that they are sent to."""
        host = self._results_at.get(outlet.table)
        if host is None:
            self._write(lane, outlet, labelled, due_s)
            return
        self._leaving += 1

        def arrived() -> None:
            self._leaving -= 1
            self._write(lane, outlet, labelled, due_s)

        size = labelled.length * VALUE_BYTES * len(labelled.columns)
        self.wires.send(self.host(side.core), host, size, arrived)

    def _write(self, lane: Lane, outlet: Outlet, labelled: Block, due_s: Seconds) -> None:
        written = self.addresses.write(lane, labelled, (outlet,))
        if not written:
            return
        latencies_s = self.now_s - due_s
        self.emitted.latency.record_all(latencies_s, np.ones(latencies_s.size, np.int64))
        self.emitted.results += written
        total, number = self.emitted.tables.get(outlet.table, (0.0, 0))
        self.emitted.tables[outlet.table] = total + float(latencies_s.sum()), number + latencies_s.size

    def _clock_us(self, times_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """The processing time of rows that a station emits: when the last event of each was read.

        So windows by that time do not depend on where and how fast operators before them run. Rows are never earlier
        than what the station has forwarded, behind which they would be late.
        """
        times, place = np.unique(times_us, return_inverse=True)
        steps = [min(bisect_left(self._newest, at_us), len(self._newest) - 1) for at_us in times.tolist()]
        found: NDArray[np.int64] = np.array([self._read_us[step] for step in steps], np.int64)[place]
        return np.maximum(found, self._least_us)

    def _due_s(self, lane: Lane, results: Block) -> Seconds:
        """When each result could have been there: when the last event it needs came, or what closed its window."""
        times, place = np.unique(results.columns[TIME], return_inverse=True)  # few: of one event, or of a window
        on_arrival = lane.kernel is not None and lane.kernel.on_arrival
        passed, find = (self._newest, bisect_left) if on_arrival else (self._passed_of[lane.number], bisect_right)
        steps = [min(find(passed, at_us), len(passed) - 1) for at_us in times.tolist()]
        found: Seconds = np.array([self._due[step] for step in steps])[place]
        return found

    def taken(self) -> tuple[Emitted, Mapping[str, list[pa.RecordBatch]], Mapping[str, int]]:
        """Results and refusals since the last call."""
        emitted, addresses = self.emitted, self.addresses
        self.emitted, self.addresses = Emitted(), Addresses(self.program, {}, 0, clock=self._clock_us)
        return emitted, addresses.results, addresses.refused

    def taken_arrivals(self) -> Arrivals:
        """What was sent to the tiles of operators that go by place since the last call."""
        found, self._arrivals = merged_arrivals(self._arrivals), []
        return found


def _nothing() -> None:
    """Nothing is delivered."""


def bandwidth(machine: Machine) -> Callable[[int, int], float]:
    """The bandwidth between two hosts, by the slowest link; infinite on one host."""

    def between(source: int, target: int) -> float:
        links: Sequence[int] = machine.route(source, target)
        return float(machine.link_bytes_per_s[list(links)].min()) if links else float("inf")

    return between
