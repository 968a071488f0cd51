"""State that a move discards: its old worker reads it once more, and says exactly what is lost."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.kernels.columns.parts import split_tables
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import Kernel, State
from shoal.model.control.messages import LostState
from shoal.model.control.partitioning import operator_of
from shoal.model.query.graph import InstanceId, OperatorId
from shoal.runtimes.migration.interruption import LossReport
from shoal.runtimes.migration.piece import Piece
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.state.loading import concatenated
from shoal.runtimes.spark.state.postponed import Dropped
from shoal.runtimes.spark.state.segment import chosen
from shoal.runtimes.spark.state.store import StateStore
from shoal.runtimes.spark.tasks.on_demand import caught_up


def losses(
    program: Program, plan: EpochPlan, worker: int, depth: int, store: StateStore
) -> Iterator[tuple[InstanceId, LostState]]:
    """What is lost of each dropped instance of a round; the new worker answers for an old one that is gone."""
    if not plan.dropped:
        return
    new_worker = dict(zip(program.instances, plan.binding, strict=True))
    mine = {
        each.instance: each
        for each in plan.dropped
        if worker == (each.source if each.source < plan.workers else new_worker[each.instance])
    }
    queries_of = _queries(program)
    for lane in program.lanes:
        places = {i: place for place, i in enumerate(lane.instances) if i in mine} if lane.depth == depth else {}
        if lane.kernel is None or not places:
            continue
        dropped = [mine[instance] for instance in places]
        for each, state in _states(program, plan, lane, dropped, places, store):
            loss = _lost(lane, lane.kernel, state)
            if loss is not None:
                yield each.instance, _for_queries(loss, queries_of[operator_of(each.instance)])


def _states(
    program: Program,
    plan: EpochPlan,
    lane: Lane,
    dropped: Sequence[Dropped],
    places: Mapping[InstanceId, int],
    store: StateStore,
) -> Iterator[tuple[Dropped, State]]:
    """The dropped state of each instance, at the watermark from before the epoch; every segment is read once."""
    found: list[Tables] = []
    for segment in dict.fromkeys(each.segment for each in dropped):
        inside = {each.instance: places[each.instance] for each in dropped if each.segment == segment}
        found += [
            {part.table: chosen(part, inside)} for part in store.read(segment) if set(part.instances) & set(inside)
        ]
    part_of = np.full(len(lane.instances), -1, np.int64)
    part_of[[places[each.instance] for each in dropped]] = np.arange(len(dropped))
    now_us = lane.watermark_us(plan.watermarks_us)
    parts = split_tables(concatenated(program, lane.number, found), part_of, len(dropped))
    for each, tables in zip(dropped, parts, strict=True):
        is_behind = each.watermark_us is not None and each.watermark_us < now_us
        behind_us = each.watermark_us if is_behind and tables else None
        yield each, State(tables if behind_us is None else caught_up(program, lane, tables, behind_us, now_us), now_us)


def _lost(lane: Lane, kernel: Kernel, state: State) -> LostState | None:
    fragments = kernel.fragments(state)
    piece = Piece(fragments, state.tables, state.watermark_us)
    return LossReport.of_pieces(kernel, [fragments], [piece]).lost_state(kernel, [""] * len(lane.instances))


def _queries(program: Program) -> Mapping[OperatorId, Sequence[str]]:
    """The queries that have each operator."""
    found: dict[OperatorId, list[str]] = defaultdict(list)
    for name, query in program.graph.queries.items():
        for operator in query.operators:
            found[operator.id].append(name)
    return found


def _for_queries(loss: LostState, names: Sequence[str]) -> LostState:
    """The loss with every query that has the operator: they share its state, so each has lost all of it."""
    return replace(loss, queries=tuple(replace(each, query=name) for name in names for each in loss.queries))
