"""State that a move discards: its old worker reads it once more, and says exactly what is lost."""

from collections.abc import Iterator
from dataclasses import replace

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import Kernel, State
from shoal.model.control.messages import LostState
from shoal.model.control.partitioning import operator_of
from shoal.model.query.graph import InstanceId
from shoal.runtimes.migration.interruption import LossReport
from shoal.runtimes.migration.piece import Piece
from shoal.runtimes.spark.state.checkpoint import EpochPlan
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
    lane_of = {i: lane for lane in program.lanes if lane.kernel and lane.depth == depth for i in lane.instances}
    for each in plan.dropped:
        lane = lane_of.get(each.instance)
        if lane is None or lane.kernel is None or worker != _answers(program, plan, each):
            continue
        loss = _lost(lane, lane.kernel, _state(program, plan, lane, each, store))
        if loss is not None:
            yield each.instance, _for_queries(program, each.instance, loss)


def _answers(program: Program, plan: EpochPlan, dropped: Dropped) -> int:
    if dropped.source < plan.workers:
        return dropped.source
    return plan.binding[program.instances.index(dropped.instance)]


def _state(program: Program, plan: EpochPlan, lane: Lane, dropped: Dropped, store: StateStore) -> State:
    """The dropped state of an instance, at the watermark from before the epoch."""
    number = {dropped.instance: lane.instances.index(dropped.instance)}
    parts = [part for part in store.read(dropped.segment) if dropped.instance in part.instances]
    tables: Tables = {part.table: chosen(part, number) for part in parts}
    now_us = lane.watermark_us(plan.watermarks_us)
    if dropped.watermark_us is not None and dropped.watermark_us < now_us:
        tables = caught_up(program, lane, tables, dropped.watermark_us, now_us)
    return State(tables, now_us)


def _lost(lane: Lane, kernel: Kernel, state: State) -> LostState | None:
    fragments = kernel.fragments(state)
    piece = Piece(fragments, state.tables, state.watermark_us)
    return LossReport.of_pieces(kernel, [fragments], [piece]).lost_state(kernel, [""] * len(lane.instances))


def _for_queries(program: Program, instance: InstanceId, loss: LostState) -> LostState:
    """The loss with every query that has the operator: they share its state, so each has lost all of it."""
    operator = operator_of(instance)
    names = [name for name, query in program.graph.queries.items() if operator in {o.id for o in query.operators}]
    return replace(loss, queries=tuple(replace(each, query=name) for name in names for each in loss.queries))
