"""Tile statistics: the statistics of all tiles of a run, which follow its partitioning."""

from collections.abc import Mapping, Sequence

from shoal.kernels.spatial.statistics import KEPT, PartitionStatistics
from shoal.model.control.binding import Binding
from shoal.model.control.partitioning import Partitioning, instance_id
from shoal.model.control.snapshot import Arrivals, InstanceLoad
from shoal.model.query.graph import Graph, InstanceId, OperatorId
from shoal.model.spatial.tiles import Tile
from shoal.policies.partitioning.swarm.plane import Plane, PlanePartition

OfTiles = Mapping[Tile, PartitionStatistics]


class TileStatistics:
    """Statistics by operator and tile; those of tiles that are cut or merged are, too."""

    def __init__(self, known: Mapping[OperatorId, Sequence[PartitionStatistics]] | None = None) -> None:
        """Begin with what is known of tiles, by default nothing."""
        self._of: dict[OperatorId, OfTiles] = {
            id_: {each.tile: each for each in several} for id_, several in (known or {}).items()
        }

    @property
    def known(self) -> dict[OperatorId, tuple[PartitionStatistics, ...]]:
        """The statistics of all tiles, by operator."""
        return {id_: tuple(of.values()) for id_, of in self._of.items()}

    def fit(self, graph: Graph, partitioning: Partitioning) -> None:
        """Have the tiles of a partitioning."""
        wanted = {operator.id: {*partitioning.tiles(operator).values()} for operator in graph.spatial_operators}
        for id_, tiles in wanted.items():
            old = self._of.get(id_, {})
            if old.keys() != tiles:
                self._of[id_] = {tile: fitted(tile, old) for tile in sorted(tiles)}
        self._of = {id_: self._of[id_] for id_ in wanted}

    def add(self, arrivals: Arrivals) -> None:
        """Collect arrivals; those of tiles that are no longer there are left out."""
        for id_, several in arrivals.items():
            of_tiles = dict(self._of.get(id_, {}))
            for came in several:
                if came.tile in of_tiles:
                    of_tiles[came.tile] = of_tiles[came.tile].with_arrivals(came)
            self._of[id_] = of_tiles

    def add_costs(self, graph: Graph, partitioning: Partitioning, loads: Mapping[InstanceId, InstanceLoad]) -> None:
        """Collect what instances have cost; those that are no longer there are left out."""
        for operator in graph.spatial_operators:
            of_tiles = dict(self._of[operator.id])
            for number, tile in partitioning.tiles(operator).items():
                load = loads.get(instance_id(operator.id, number))
                if load is not None and load.cost_s and tile in of_tiles:
                    of_tiles[tile] = of_tiles[tile].with_cost(load.cost_s)
            self._of[operator.id] = of_tiles

    def close(self, kept: float = KEPT) -> None:
        """Close the round; `kept` is the share of earlier points that still counts."""
        self._of = {id_: {tile: each.closing(kept) for tile, each in of.items()} for id_, of in self._of.items()}

    def plane(self, graph: Graph, partitioning: Partitioning, binding: Binding, *, measured: bool) -> Plane:
        """All partitions with their workers; `measured`: costs are seconds of workers."""
        found = []
        for operator in graph.spatial_operators:
            for number, tile in sorted(partitioning.tiles(operator).items()):
                instance = instance_id(operator.id, number)
                worker, statistics = int(binding.worker_of[instance]), self._of[operator.id][tile]
                found.append(PlanePartition(instance, worker, statistics))
        return Plane(tuple(found), binding.workers, measured)


def fitted(tile: Tile, old: OfTiles) -> PartitionStatistics:
    """The statistics of a tile, from those of other tiles: cut out of one, or joined from several.

    Where tiles neither contain it nor form it, nothing is known of it.
    """
    for other, statistics in old.items():
        if (
            other.left <= tile.left
            and other.top <= tile.top
            and tile.right <= other.right
            and tile.bottom <= other.bottom
        ):
            return _cut_out(tile, statistics)
    pieces = [
        each
        for other, each in old.items()
        if tile.left <= other.left
        and tile.top <= other.top
        and other.right <= tile.right
        and other.bottom <= tile.bottom
    ]
    whole = _joined(pieces)
    return whole if whole is not None and whole.tile == tile else PartitionStatistics.none(tile)


def _cut_out(tile: Tile, statistics: PartitionStatistics) -> PartitionStatistics:
    if tile.left > statistics.tile.left:
        statistics = statistics.cut("column", tile.left)[1]
    if tile.right < statistics.tile.right:
        statistics = statistics.cut("column", tile.right)[0]
    if tile.top > statistics.tile.top:
        statistics = statistics.cut("row", tile.top)[1]
    if tile.bottom < statistics.tile.bottom:
        statistics = statistics.cut("row", tile.bottom)[0]
    return statistics


def _joined(pieces: Sequence[PartitionStatistics]) -> PartitionStatistics | None:
    """Pieces as one, joined two by two; None if they cannot be."""
    left = list(pieces)
    while len(left) > 1:
        pair = next(((a, b, both) for a in left for b in left if (both := _pair(a, b)) is not None), None)
        if pair is None:
            return None
        left = [each for each in left if each is not pair[0] and each is not pair[1]] + [pair[2]]
    return left[0] if left else None


def _pair(a: PartitionStatistics, b: PartitionStatistics) -> PartitionStatistics | None:
    """Two pieces as one if the second lies right behind the first."""
    one, other = a.tile, b.tile
    if one.right == other.left and (one.top, one.bottom) == (other.top, other.bottom):
        return a.joined(b, "column")
    if one.bottom == other.top and (one.left, one.right) == (other.left, other.right):
        return a.joined(b, "row")
    return None
