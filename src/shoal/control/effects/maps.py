"""Maps of a run: the rectangles of spatial operators with their loads, from time to time."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from shoal.control.journal import Mapped, TileLoad
from shoal.control.observation import merged_snapshots
from shoal.model.control.messages import EpochCommitted, Event, RunEnded
from shoal.model.control.partitioning import instance_id
from shoal.model.control.snapshot import InstanceLoad, Snapshot
from shoal.model.query.graph import Graph, Operator
from shoal.model.spatial.grid import Grid

EVERY_S = 1.0
"""The least time between two maps, at the beginning of a run."""
RARER_AFTER = 600
"""After so many maps of an operator the time between two is doubled, so that a journal stays small."""
IDLE = InstanceLoad(0, 0.0, 0, 0)


@dataclass
class Maps:
    """Collects the loads of a run, and returns a map of every spatial operator now and then and before tiles change.

    `graph`: the queries at the beginning; snapshots may have others.
    """

    graph: Graph
    _every_s: float = EVERY_S
    _made: int = 0
    _snapshots: list[Snapshot] = field(default_factory=list)
    _newest: EpochCommitted | None = None

    def take(self, event: Event) -> tuple[Mapped, ...]:
        """Take an event; returns the maps that are due with it. The last ones come with the end of the run."""
        if isinstance(event, RunEnded):
            return () if self._newest is None else self._drawn(self._newest)
        if not isinstance(event, EpochCommitted):
            return ()
        self.graph = event.snapshot.graph or self.graph
        if not self.graph.spatial_operators:
            return ()
        found: tuple[Mapped, ...] = ()
        if self._newest is not None and self._changed(event.snapshot):
            found = self._drawn(self._newest)
        self._snapshots.append(event.snapshot)
        self._newest = event
        if sum(each.period_s for each in self._snapshots) >= self._every_s:
            found += self._drawn(event)
        return found

    def _changed(self, snapshot: Snapshot) -> bool:
        """Whether tiles or workers are not those of the snapshots so far."""
        if not self._snapshots:
            return False
        last = self._snapshots[-1]
        return last.partitioning != snapshot.partitioning or last.binding != snapshot.binding

    def _drawn(self, event: EpochCommitted) -> tuple[Mapped, ...]:
        if not self._snapshots:
            return ()
        whole, self._snapshots = merged_snapshots(self._snapshots), []
        self._made += 1
        if self._made % RARER_AFTER == 0:
            self._every_s *= 2
        return tuple(_mapped(operator, self.graph, whole, event) for operator in self.graph.spatial_operators)


def _mapped(operator: Operator, graph: Graph, whole: Snapshot, event: EpochCommitted) -> Mapped:
    grid = Grid.from_data(operator.parameters["grid"])
    queries = tuple(name for name, query in graph.queries.items() if operator in query.operators)
    tiles = tuple(_tiles(operator, whole))
    cells = grid.columns, grid.rows
    return Mapped(event.at_s, event.epoch, operator.id, queries, grid.space, cells, grid.units, whole.period_s, tiles)


def _tiles(operator: Operator, whole: Snapshot) -> Iterator[TileLoad]:
    for number, tile in sorted(whole.partitioning.tiles(operator).items()):
        instance = instance_id(operator.id, number)
        load = whole.loads.get(instance, IDLE)
        worker = int(whole.binding.worker_of.get(instance, 0))
        borders = (tile.left, tile.top, tile.right, tile.bottom)
        yield TileLoad(number, worker, *borders, load.events, load.results, load.cost_s)
