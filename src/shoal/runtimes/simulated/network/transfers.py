"""Transfers of stations: what mechanisms need to know of the instances that move."""

from collections.abc import Container, Mapping, Sequence

from shoal.compiler.program import Program
from shoal.mechanisms.transfer import SharedCapacity, Transfer
from shoal.model.control.binding import Move
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.runtimes.simulated.network.station import Station

Capacities = Mapping[InstanceId, SharedCapacity]
"""What the links of instances can carry in time, for those whose links are limited."""


def transfers_of(
    moves: Sequence[Move],
    stations: Mapping[InstanceId, Station],
    program: Program,
    topology: Topology,
    replicated: Container[InstanceId],
    capacities: Capacities,
) -> list[Transfer]:
    """The transfers of moves, each with the fragments of its state; operators upstream have a larger depth.

    `replicated`: the instances of which the target has a replica.
    """
    return [
        _transfer(
            move,
            stations[move.instance],
            program,
            topology,
            replicated=move.instance in replicated,
            capacity=capacities.get(move.instance),
        )
        for move in moves
    ]


def _transfer(
    move: Move,
    station: Station,
    program: Program,
    topology: Topology,
    *,
    replicated: bool,
    capacity: SharedCapacity | None,
) -> Transfer:
    fragments = station.listing()(station.state)
    node_of = topology.node_of
    known = len(node_of)
    return Transfer(
        move.instance,
        move.source,
        move.target,
        fragments.total_bytes,
        fragments,
        (node_of[move.source] if move.source < known else 0, node_of[move.target] if move.target < known else 0),
        on_arrival=station.kernel.on_arrival,
        bounded=station.kernel.bounded,
        replicated=replicated,
        depth=program.depth - station.lane.depth,
        capacity=capacity,
    )
