"""Transfers of stations: what mechanisms need to know of the instances that move."""

from collections.abc import Container, Mapping, Sequence

from shoal.compiler.program import Program
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import Move
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.runtimes.simulated.network.station import Station


def transfers_of(
    moves: Sequence[Move],
    stations: Mapping[InstanceId, Station],
    program: Program,
    topology: Topology,
    replicated: Container[InstanceId],
) -> list[Transfer]:
    """The transfers of moves, each with the fragments of its state; operators upstream have a larger depth.

    `replicated`: the instances of which the target has a replica.
    """
    return [
        _transfer(move, stations[move.instance], program, topology, replicated=move.instance in replicated)
        for move in moves
    ]


def _transfer(move: Move, station: Station, program: Program, topology: Topology, *, replicated: bool) -> Transfer:
    fragments = station.kernel.fragments(station.state)
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
    )
