"""Arrangements: which queries run, how instances divide their keys, and which worker has each instance."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from shoal.compiler.division import assigned_again
from shoal.compiler.program import Program, compile_graph
from shoal.errors import BindingError, GraphError, QueryError, RunError, ShoalError
from shoal.kernels.columns.parts import assigned, split_tables
from shoal.kernels.columns.table import Tables
from shoal.kernels.expression.failing import raised
from shoal.model.control.binding import Binding
from shoal.model.control.messages import AddQuery, Command, Rebind, RemoveQuery, Repartition, ReplaceQuery
from shoal.model.control.parked import ParkedQuery
from shoal.model.control.partitioning import DECLARED, Partitioning, operator_of
from shoal.model.query.graph import Graph, InstanceId, Query


@dataclass(frozen=True)
class Arrangement:
    """Everything that commands can change between two epochs."""

    graph: Graph
    binding: Binding
    partitioning: Partitioning = DECLARED
    parked: Mapping[str, ParkedQuery] = field(default_factory=dict)
    """Queries that failed, by name; they are not in the graph until they are replaced."""

    @cached_property
    def program(self) -> Program:
        """The compiled graph."""
        return compile_graph(self.graph, self.partitioning)

    def after(self, command: Command, streams: set[str]) -> "Arrangement":
        """The arrangement after a command; raises if the command is invalid. `streams` are those that have a source."""
        if isinstance(command, Rebind):
            return self._rebound(command.binding)
        if isinstance(command, Repartition):
            return self._repartitioned(command)
        if isinstance(command, AddQuery | ReplaceQuery) and command.query.name in self.parked:
            self.parked[command.query.name].check_replacement(command.query)
            return self._without_parked(command.query.name).after(AddQuery(command.query), streams)
        if isinstance(command, RemoveQuery) and command.name in self.parked:
            return self._without_parked(command.name)
        if isinstance(command, AddQuery):
            _check_streams(command.query, streams)
            return self.with_graph(self.graph.with_query(command.query), self.binding).compiled(command.query)
        if isinstance(command, ReplaceQuery):
            _check_streams(command.query, streams)
            return self.with_graph(_replaced(self.graph, command.query), self.binding).compiled(command.query)
        if isinstance(command, RemoveQuery):
            return self.with_graph(_without(self.graph, command.name), self.binding)
        return self

    def parking(self, error: QueryError) -> "Arrangement":
        """The arrangement without the queries that failed; raises if no other is left."""
        failed = {name: ParkedQuery.of(self.graph.queries[name], error.reason, error.row) for name in error.queries}
        others = {name: query for name, query in self.graph.queries.items() if name not in failed}
        if not others:
            raise RunError(f"no query is left to run; {error}")
        return replace(self.with_graph(Graph(others), self.binding), parked={**self.parked, **failed})

    def _without_parked(self, name: str) -> "Arrangement":
        return replace(self, parked={other: each for other, each in self.parked.items() if other != name})

    def compiled(self, newest: Query) -> "Arrangement":
        """The same, once it is known that its graph can be compiled; raises an error that names the newest query.

        A query that comes from a file may be anything that has the form of one.
        """
        try:
            _ = self.program
        except ShoalError:
            raise
        except Exception as error:
            raise GraphError(f"query {newest.name!r} cannot be compiled: {raised(error)}") from error
        return self

    def with_graph(self, graph: Graph, binding: Binding) -> "Arrangement":
        """The arrangement with another graph; instances keep their workers unless the number of workers changes."""
        kept = self.binding if self.binding.workers == binding.workers else binding
        partitioning = self.partitioning.fitted(graph)
        return Arrangement(graph, kept.fitted(partitioning.instances(graph)), partitioning, self.parked)

    def _rebound(self, binding: Binding) -> "Arrangement":
        if unknown := [instance for instance in binding.worker_of if instance not in self.binding.worker_of]:
            raise BindingError(f"the binding names instance {unknown[0]!r}, which the graph does not have")
        wanted = Binding({**self.binding.worker_of, **binding.worker_of}, binding.workers)
        return replace(self, binding=wanted)

    def _repartitioned(self, command: Repartition) -> "Arrangement":
        partitioning = self.partitioning
        for change in command.changes:
            partitioning = partitioning.after(change, self.graph)
        compile_graph(self.graph, partitioning)  # rejects a split of groups that have a single key
        instances = partitioning.instances(self.graph)
        if unknown := [instance for instance in command.worker_of if instance not in instances]:
            raise BindingError(f"the binding names instance {unknown[0]!r}, which the partitioning does not have")
        wanted = Binding.of({**self.binding.worker_of, **command.worker_of}, self.binding.workers)
        return replace(self, partitioning=partitioning, binding=wanted.fitted(instances))

    @property
    def instances(self) -> tuple[InstanceId, ...]:
        """The instances that hold state."""
        return self.partitioning.instances(self.graph)


def _check_streams(query: Query, streams: set[str]) -> None:
    if missing := [stream for stream in query.streams if stream not in streams]:
        raise GraphError(f"query {query.name!r} reads stream {missing[0]!r}, which has no source in this run")


def _replaced(graph: Graph, query: Query) -> Graph:
    queries = graph.queries
    if query.name not in queries:
        raise GraphError(f"no query is named {query.name!r}; there are {', '.join(queries)}; add it instead")
    before = queries[query.name]
    if query.table == before.table and list(query.columns.items()) != list(before.columns.items()):
        raise GraphError(
            f"query {query.name!r} must write table {query.table!r} with the columns that it has, "
            f"{', '.join(before.columns)}; got {', '.join(query.columns)}; give it another table"
        )
    return Graph({name: query if name == query.name else other for name, other in queries.items()})


def _without(graph: Graph, name: str) -> Graph:
    smaller = graph.without_query(name)
    if not smaller.queries:
        raise GraphError(f"query {name!r} is the last one; drain or stop the run instead of removing it")
    return smaller


def state_after(before: Arrangement, after: Arrangement, state: Mapping[int, Tables]) -> dict[int, Tables]:
    """Convert state by lane from one arrangement to another; state of instances that no longer exist is dropped.

    1. An instance that both have keeps its rows, under the lane and number that it has afterwards.
    2. Rows of instances that were split or merged are partitioned again by key.
    """
    heirs = before.partitioning.heirs(after.partitioning, after.graph)
    lanes = [lane for lane in after.program.lanes if lane.kernel is not None]
    lane_of = {instance: (lane, number) for lane in lanes for number, instance in enumerate(lane.instances)}
    first_of = {operator_of(instance): lane_of[instance] for instance in reversed(lane_of)}
    found: dict[int, list[Tables]] = defaultdict(list)
    for lane, tables in state.items():
        instances = before.program.lanes[lane].instances
        for instance, part in zip(instances, split_tables(tables, range(len(instances)), len(instances)), strict=True):
            if instance in heirs:
                home, first = first_of[operator_of(instance)]
                again = {slot: assigned(rows, assigned_again(home, slot, rows, first)) for slot, rows in part.items()}
            elif instance in lane_of:
                home, number = lane_of[instance]
                again = {slot: assigned(rows, np.full(len(rows), number)) for slot, rows in part.items()}
            else:
                continue
            found[home.number] += [again] if again else []
    return {
        lane.number: lane.kernel.concatenated(found[lane.number])
        for lane in lanes
        if lane.kernel and found[lane.number]
    }
