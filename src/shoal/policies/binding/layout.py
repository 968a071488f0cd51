"""Layouts: the instances, partitions and edges of a graph, as binding policies use them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.errors import ConfigError
from shoal.model.control.load_columns import LoadColumns
from shoal.model.control.partitioning import DECLARED, Partitioning, number_of
from shoal.model.control.snapshot import Snapshot
from shoal.model.query.graph import STATEFUL, Graph, InstanceId, Operator, OperatorId
from shoal.policies.binding.loads import Floats, Ints, Loads, summed
from shoal.policies.binding.paths import Paths
from shoal.policies.binding.static import partition_names

ROW_BYTES = 64
"""Assumed size of a row that one instance sends to another."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The instances that are bound, their partitions, and which of them feeds which; made once per graph.

    `operator` numbers their operators. `edge_share` is how many instances share what the source of each edge sends that
    way. `paths` has no bytes yet.
    """

    instances: tuple[InstanceId, ...]
    operator: Ints
    partition: Ints
    edge_source: Ints
    edge_target: Ints
    edge_share: Ints
    paths: Paths

    @classmethod
    def of(cls, graph: Graph, kinds: Collection[str] = STATEFUL, partitioning: Partitioning = DECLARED) -> "Layout":
        """The layout of the operators of some kinds, by default of those with state.

        Operators of other kinds are skipped: edges lead from the nearest operators upstream to those downstream.
        """
        bound = {id_: operator for id_, operator in graph.operators.items() if operator.kind in kinds}
        instances_of = {id_: partitioning.instances_of(operator) for id_, operator in bound.items()}
        instances = tuple(instance for several in instances_of.values() for instance in several)
        place_of = {instance: place for place, instance in enumerate(instances)}
        names = partition_names(graph, partitioning)
        number_of = {name: n for n, name in enumerate(dict.fromkeys(names[instance] for instance in instances))}
        feeding = _feeding(graph, bound)
        edges = [
            (place_of[source], place_of[target], share)
            for operator in bound.values()
            for before in feeding[operator.id]
            for source, target, share in _pairs(instances_of[before], instances_of[operator.id])
        ]
        columns = np.array(edges, dtype=np.int64).reshape(-1, 3)
        partition = np.array([number_of[names[instance]] for instance in instances], dtype=np.int64)
        operator = np.repeat(np.arange(len(bound)), [len(several) for several in instances_of.values()])
        places_of = {id_: [place_of[each] for each in several] for id_, several in instances_of.items()}
        paths = _paths(graph, bound, places_of)
        return cls(instances, operator, partition, columns[:, 0], columns[:, 1], columns[:, 2], paths)

    def loads(self, snapshot: Snapshot, before: Loads | None = None) -> Loads:
        """The loads of a snapshot; the bytes of an edge are estimated by the rows that its source emitted.

        What an instance processed and no other instance emitted came from its streams. An instance that had no turn
        has the cost per event that was known `before`, and otherwise that of the instances of its operator, so that its
        backlog counts as work.
        """
        if snapshot.period_s <= 0:
            raise ConfigError(f"a snapshot must be of more than 0 seconds; got {snapshot.period_s}")
        observed = LoadColumns.of(self.instances, snapshot.loads)
        busy_s = observed.cost_s
        # An instance may work without input, when windows close; its time then counts as that of one event.
        events = np.maximum(observed.events, busy_s > 0).astype(float)
        edge_rows = observed.results[self.edge_source] / self.edge_share
        return Loads(
            self.instances,
            cost_s=self._cost_s(busy_s, events, before),
            backlog=observed.backlog.astype(float),
            rate_per_s=events / snapshot.period_s,
            busy_s=busy_s,
            state_bytes=observed.state_bytes.astype(float),
            partition=self.partition,
            edge_source=self.edge_source,
            edge_target=self.edge_target,
            edge_bytes=edge_rows * ROW_BYTES,
            latency_s=dict(snapshot.latency_s),
            period_s=snapshot.period_s,
            paths=self._fed(observed.events - summed(edge_rows, self.edge_target, len(self.instances))),
        )

    def _cost_s(self, busy_s: Floats, events: Floats, before: Loads | None) -> Floats:
        """The time per event of every instance; of those without a turn, the last known one."""
        had_turn = events > 0
        number = int(self.operator.max(initial=-1)) + 1
        all_s, all_events = (np.bincount(self.operator, each, number) for each in (busy_s, events))
        mean_s = np.divide(all_s, all_events, out=np.zeros(number), where=all_events > 0)
        known_s: Floats = mean_s[self.operator]
        if before is not None and before.instances == self.instances:
            known_s = np.where(before.cost_s > 0, before.cost_s, known_s)
        return np.divide(busy_s, events, out=known_s.copy(), where=had_turn)

    def _fed(self, rows: Floats) -> Paths:
        """The paths with the rows that came to each instance from streams, evenly from each of them."""
        place = self.paths.inlet_place
        inlets = np.bincount(place, minlength=len(self.instances))
        return replace(self.paths, inlet_bytes=np.maximum(rows, 0.0)[place] * ROW_BYTES / inlets[place])


def _feeding(graph: Graph, bound: Mapping[OperatorId, Operator]) -> dict[OperatorId, tuple[OperatorId, ...]]:
    """For every operator the nearest bound operators upstream, each once."""
    nearest: dict[OperatorId, tuple[OperatorId, ...]] = {}
    for id_, operator in graph.operators.items():
        found = ((before,) if before in bound else nearest[before] for before in operator.inputs)
        nearest[id_] = tuple(dict.fromkeys(one for several in found for one in several))
    return nearest


def _paths(graph: Graph, bound: Mapping[OperatorId, Operator], places_of: Mapping[OperatorId, list[int]]) -> Paths:
    """For every instance the streams that reach it without another bound one between, and the ends of queries."""
    streams = {stream: number for number, stream in enumerate(graph.streams)}
    reaching: dict[OperatorId, tuple[str, ...]] = {}
    for id_, operator in graph.operators.items():
        own = (str(operator.parameters["stream"]),) if operator.kind == "source" else ()
        before = (stream for each in operator.inputs if each not in bound for stream in reaching[each])
        reaching[id_] = tuple(dict.fromkeys((*own, *before)))
    inlets = [(streams[name], place) for id_ in bound for name in reaching[id_] for place in places_of[id_]]
    columns = np.array(inlets, dtype=np.int64).reshape(-1, 2)
    ends: dict[str, tuple[int, ...]] = {}
    for query in graph.queries.values():
        for operator in query.operators:
            if operator.id in bound:
                ends[query.name] = tuple(places_of[operator.id])
    return Paths(tuple(streams), columns[:, 0], columns[:, 1], np.zeros(len(inlets)), ends)


def _pairs(sources: Sequence[InstanceId], targets: Sequence[InstanceId]) -> list[tuple[InstanceId, InstanceId, int]]:
    """Sender, receiver and number of receivers: equal key groups one to one, all to all if the groups differ."""
    if [number_of(one) for one in sources] == [number_of(other) for other in targets]:
        return [(one, other, 1) for one, other in zip(sources, targets, strict=True)]
    return [(one, other, len(targets)) for one in sources for other in targets]
