"""Repair: a run that resumes with other functions than it was stopped or killed with.

The functions of the job that is given now are used, in the epoch that was interrupted as well. A function that was
pickled by value is part of its operator's id, so that a repaired function gives other ids, also to the operators behind
it. An operator with state is therefore recognised by what it is apart from code: its parameters, its inputs, and the
name of its query. Its state is then written again under its new id. Old functions are compared as texts and never
loaded.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shoal.kernels.columns.parts import renumbered
from shoal.model.control.binding import Binding
from shoal.model.control.partitioning import Partitioning, instance_id, number_of, operator_of
from shoal.model.query.graph import STATEFUL, Graph, InstanceId, OperatorId, Query
from shoal.runtimes.spark.driver.position import Position
from shoal.runtimes.spark.rebinding.rebinding import Rebinding
from shoal.runtimes.spark.state.segment import SegmentPart
from shoal.runtimes.spark.state.store import StateStore

NewIds = Mapping[OperatorId, tuple[OperatorId, ...]]
"""The ids under which the state of an operator goes on; several if queries that shared it no longer do."""


def repaired(planned: Position, before: Graph, graph: Graph, store: StateStore) -> Position:
    """The position with the state, the workers and the slots of operators under the ids that they have in `graph`.

    `before` is the graph that the state was written under, that of the position the one of the interrupted epoch.
    Segments are written here; those that the last manifest names stay until the next epoch is committed.
    """
    position = _with_state(planned, new_ids(before, graph), store)
    ids = new_ids(planned.graph, graph)
    if not ids:
        return position
    return replace(
        position,
        binding=_binding(position.binding, ids),
        coming=position.coming and _binding(position.coming, ids),
        partitioning=_partitioning(position.partitioning, ids),
        rebinding=position.rebinding and _rebinding(position.rebinding, ids),
        postponed={
            new: replace(each, instance=new) for i, each in position.postponed.items() for new in _instances(i, ids)
        },
        rests={new: rest for i, rest in position.rests.items() for new in _instances(i, ids)},
        dropped={
            new: replace(each, instance=new) for i, each in position.dropped.items() for new in _instances(i, ids)
        },
    )


def new_ids(before: Graph, after: Graph) -> NewIds:
    """The operators with state that are the same apart from code, by their ids before, where those have changed."""
    found: dict[OperatorId, dict[OperatorId, None]] = defaultdict(dict)
    for name, query in before.queries.items():
        if name in after.queries:
            ours, theirs = _stateful(query), _stateful(after.queries[name])
            for text in ours.keys() & theirs.keys():
                if len(ours[text]) == len(theirs[text]):
                    for old, new in zip(ours[text], theirs[text], strict=True):
                        found[old][new] = None
    return {old: tuple(sorted(new)) for old, new in sorted(found.items()) if tuple(new) != (old,)}


def _stateful(query: Query) -> Mapping[str, list[OperatorId]]:
    """The operators with state of a query, by what they are apart from code."""
    text_of: dict[OperatorId, str] = {}
    found: dict[str, list[OperatorId]] = defaultdict(list)
    for operator in query.operators:
        inputs = [text_of[id_] for id_ in operator.inputs]
        text_of[operator.id] = json.dumps([operator.kind, _without_code(operator.parameters), inputs])
        if operator.kind in STATEFUL:
            found[text_of[operator.id]].append(operator.id)
    return found


def _without_code(data: Any) -> Any:
    """Plain data without the names and the code of user functions and aggregates."""
    if isinstance(data, Mapping):
        return {name: _without_code(value) for name, value in data.items()}
    if not isinstance(data, list | tuple):
        return data
    match data:
        case ["udf", str(), str(code), str(type_), *arguments] if ":" in code:
            return ["udf", type_, *map(_without_code, arguments)]
        case ["user", str(column), int(k), str(code), str(type_)] if ":" in code:
            return ["user", column, k, type_]
        case _:
            return [_without_code(each) for each in data]


def _with_state(position: Position, ids: NewIds, store: StateStore) -> Position:
    """The position with state written again under new ids."""
    if not ids:
        return position
    homes = dict(position.homes)
    sizes, sizes_bytes = dict(position.segment_sizes), dict(position.segment_bytes)
    moving: dict[str, list[InstanceId]] = defaultdict(list)
    for instance, segment in position.homes.items():
        if operator_of(instance) in ids:
            moving[segment].append(instance)
    for segment, instances in moving.items():
        parts = [made for part in store.read(segment) for made in _renamed(part, set(instances), ids)]
        epoch, worker = (int(text) for text in segment.split("-")[:2])
        name, size = store.write(epoch, worker, parts)
        names = {instance for part in parts for instance in part.instances}
        homes = {i: home for i, home in homes.items() if i not in instances or operator_of(i) in ids[operator_of(i)]}
        homes |= dict.fromkeys(names, name)
        sizes[name], sizes_bytes[name] = len(names), size
    held = _partitioning(position.held, ids)
    return replace(position, homes=homes, segment_sizes=sizes, segment_bytes=sizes_bytes, held=held)


def _renamed(part: SegmentPart, instances: set[InstanceId], ids: NewIds) -> list[SegmentPart]:
    """The rows of some instances of a part, once for every new id."""
    variants = max(len(ids.get(operator_of(instance), ())) for instance in part.instances)
    made = []
    for variant in range(variants):
        numbers, names = np.full(len(part.instances), -1, np.int64), list[InstanceId]()
        for number, instance in enumerate(part.instances):
            new = ids.get(operator_of(instance), ())[variant : variant + 1]
            if new and instance in instances:
                numbers[number] = len(names)
                names.append(instance_id(new[0], number_of(instance)))
        if names:
            made.append(SegmentPart(tuple(names), part.table, renumbered(part.content, numbers)))
    return made


def _instances(instance: InstanceId, ids: NewIds) -> Sequence[InstanceId]:
    new = ids.get(operator_of(instance))
    return [instance] if new is None else [instance_id(id_, number_of(instance)) for id_ in new]


def _binding(binding: Binding, ids: NewIds) -> Binding:
    worker_of = {new: worker for i, worker in binding.worker_of.items() for new in _instances(i, ids)}
    return Binding(worker_of, binding.workers)


def _partitioning(partitioning: Partitioning, ids: NewIds) -> Partitioning:
    entries = {new: slots for group, slots in partitioning.entries for new in _instances(group, ids)}
    layouts = {new: layout for id_, layout in partitioning.layouts for new in ids.get(id_) or (id_,)}
    return replace(partitioning, entries=tuple(sorted(entries.items())), layouts=tuple(sorted(layouts.items())))


def _rebinding(rebinding: Rebinding, ids: NewIds) -> Rebinding:
    moves = tuple(replace(move, instance=new) for move in rebinding.now for new in _instances(move.instance, ids))
    return replace(rebinding, goal=_binding(rebinding.goal, ids), now=moves)
