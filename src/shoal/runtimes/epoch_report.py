"""Reports of epochs that were computed in one thread: what was read and written, and what every instance cost."""

from collections.abc import Iterable, Mapping, Sequence

from shoal.connectors.admission import DEAD_LETTERS
from shoal.model.control.binding import Binding, Move
from shoal.model.control.messages import EpochCommitted, MoveReport
from shoal.model.control.shedding import NO_SHEDDING, StreamShedding
from shoal.model.control.snapshot import InstanceLoad, Snapshot
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.interpreter import Interpreted


def one_node(binding: Binding) -> Topology:
    """One node with as many workers as a binding has; none of them exists."""
    return Topology.of(1, binding.workers)


def moved(moves: Iterable[Move], loads: Mapping[InstanceId, InstanceLoad]) -> list[MoveReport]:
    """What moves have moved, by the last loads that were observed."""
    found = [(move, loads.get(move.instance)) for move in moves]
    return [MoveReport(m.instance, m.source, m.target, load.state_bytes if load else 0) for m, load in found]


def committed(
    number: int,
    now: Arrangement,
    epoch: Interpreted,
    loads: Mapping[InstanceId, InstanceLoad],
    marks: Mapping[str, int],
    moved: Sequence[MoveReport],
    times_s: tuple[float, float],
    shedding: Mapping[str, StreamShedding] = NO_SHEDDING,
) -> EpochCommitted:
    """The event for an epoch that began and ended at the given times; its latency is the time it took."""
    took_s, binding = times_s[1] - times_s[0], now.binding
    counted = {table: sum(batch.num_rows for batch in batches) for table, batches in epoch.results.items()}
    dead = counted.pop(DEAD_LETTERS, 0)
    shares = [(binding.worker_of[instance], load.cost_s) for instance, load in loads.items()]
    busy_s = tuple(sum(cost_s for at, cost_s in shares if at == worker) for worker in range(binding.workers))
    observed = Snapshot(
        number,
        binding,
        loads,
        {stream: mark for stream, mark in marks.items() if stream in now.program.inputs},
        took_s,
        dict.fromkeys(counted, took_s),
        busy_s,
        one_node(binding),
        now.graph,
        now.partitioning,
        epoch.arrivals,
    )
    return EpochCommitted(
        number,
        epoch.rows,
        sum(counted.values()),
        dead,
        len(moved),
        sum(load.state_bytes for load in loads.values()),
        sum(move.state_bytes for move in moved),
        took_s,
        took_s,
        took_s,
        0.0,
        0.0,
        observed,
        refusals=dict(epoch.refused),
        refused_rows=epoch.refused_rows,
        shed=epoch.shed,
        shedding=shedding,
        at_s=times_s[1],
    )
