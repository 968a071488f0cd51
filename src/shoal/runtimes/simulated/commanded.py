"""Runs in simulated time, whatever they simulate: commands between epochs, the end, and the clocks that policies see.

Time begins at 0 and passes in the thread that iterates over the events.
"""

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from shoal.compiler.shedding.shed_rules import check_windows
from shoal.connectors.sinks import Sink
from shoal.connectors.sources.source import Source
from shoal.errors import BindingError, ShoalError
from shoal.mechanisms.catalog import MECHANISMS, mechanism_named, refuse_limit
from shoal.model.control.messages import Command, CommandRefused, Event, Rebind, ShedInput, WorkersLost
from shoal.model.control.shedding import NO_SHEDDING, StreamShedding
from shoal.model.control.topology import Topology
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.followed import FollowedRun
from shoal.runtimes.protocol import Capabilities, Unmeasured
from shoal.runtimes.simulated.input.timed import TimedInput
from shoal.runtimes.simulated.settings import SimulatedSettings
from shoal.runtimes.simulated.workers import Workers

MECHANISM = "all-at-once"
CAPABILITIES = Capabilities(
    name="simulated",
    summary="a machine of any size in simulated time: real results, or statistics without rows",
    starting="compiling queries ...",
    interrupted="every event that was read has been processed",
    mechanisms=(MECHANISM, *(name for name in MECHANISMS if name != MECHANISM)),
    changes_queries=True,
    shares_queues=True,
    stops_to_divide=True,
    knows_hosts=True,
    simulates_time=True,
)
ENDING = "the run has taken in all of its input and is ending"


class CommandedRun(Unmeasured, FollowedRun):
    """A run that takes commands between epochs; a subclass makes the epochs.

    It sets `_now`, `_workers`, `_input` and `_run` when it starts.
    """

    capabilities = replace(CAPABILITIES, mechanisms=(MECHANISM,))
    """Other mechanisms need a run that is simulated row by row."""
    where = "the simulated runtime with detail=steps"
    _now: Arrangement
    _workers: Workers
    _input: TimedInput

    def __init__(
        self,
        sources: Mapping[str, Source],
        sink: Sink,
        settings: SimulatedSettings,
        *,
        parks: bool = False,
        most_workers: int = 0,
        shedding: Mapping[str, StreamShedding] = NO_SHEDDING,
    ) -> None:
        """Prepare a run; nothing starts yet. `shedding`: streams of which rows may be shed."""
        super().__init__()
        self._shedding = shedding
        self._sources, self._sink, self.settings, self._parks = sources, sink, settings, parks
        self._most_workers = most_workers
        self.consumed = 0

    @abstractmethod
    def _rebind(self, command: Rebind, after: Arrangement) -> Iterator[Event]:
        """Begin to move instances to the workers of an arrangement; raises if there are too few."""

    @abstractmethod
    def _rearrange(self, after: Arrangement) -> None:
        """Change queries or partitioning."""

    @property
    def topology(self) -> Topology:
        """The workers and their nodes."""
        return self._workers.topology

    def cpu_s(self) -> float:
        """Processor time of the calling thread, if policies are measured."""
        return time.thread_time() if self.settings.measure_policy else 0.0

    def _carried_out(self, refusal: str = "", *, only_rebindings: bool = False) -> Iterator[Event]:
        """Apply the waiting commands, or only the rebindings among them; invalid and late ones are refused."""
        later = list[Command]()
        while not self._commands.empty():
            command = self._commands.get_nowait()
            if only_rebindings and not isinstance(command, Rebind):
                later.append(command)
                continue
            try:
                if refusal:
                    raise BindingError(refusal)
                if isinstance(command, Rebind):
                    mechanism_named(command.mechanism or MECHANISM, self.capabilities.mechanisms, self.where)
                    self._check_limit(command)
                    yield from self._rebind(command, self._now.after(command, set(self._sources)))
                elif isinstance(command, ShedInput):
                    self._input.switch(active=command.active)
                else:
                    check_windows(self._input.shedding, self._now.after(command, set(self._sources)).graph)
                    yield from self._changed(command)
            except ShoalError as error:
                yield CommandRefused(command, str(error), at_s=self.now_s())
        for command in later:
            self._commands.put(command)

    def _check_limit(self, command: Rebind) -> None:
        """Reject a rebinding that would drop state, which only a run row by row can do."""
        refuse_limit(command.limit, self.where)

    def _changed(self, command: Command) -> Iterator[Event]:
        """Change queries or partitioning; raises if that is impossible. Time may pass meanwhile."""
        self._rearrange(self._now.after(command, set(self._sources)))
        yield from ()

    def _write(self, results: Mapping[str, Iterable[pa.RecordBatch]], epoch: int) -> None:
        """Write the results of an epoch."""
        for table, batches in results.items():
            self._sink.write(table, epoch, pa.Table.from_batches(batches))

    def _notice_lost(self, lost: frozenset[int]) -> Iterator[WorkersLost]:
        """Report workers whose cores are lost by now, and take back those that are there again."""
        new, machine = lost - self._workers.lost, self.settings.machine
        self._workers = self._workers.without(new).returned(self._workers.lost - lost)
        numbers = [int(self._workers.number_of[core]) for core in sorted(new)]
        in_use = tuple(number for number in numbers if number >= 0)
        if in_use:
            hosts = dict.fromkeys(machine.hosts[machine.worker_host[core]].name for core in sorted(new))
            yield WorkersLost(in_use, f"host {', '.join(hosts)} has failed", at_s=self.now_s())
