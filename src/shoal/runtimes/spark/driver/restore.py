"""Restoring: from the files of a checkpoint to the position at which a run resumes."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from shoal.compiler.program import program_instances
from shoal.errors import CheckpointError
from shoal.model.control.binding import Binding, Move, WorkerId
from shoal.model.control.messages import MoveReport, MovesFinished
from shoal.model.control.parked import ParkedQuery, digest
from shoal.model.query.code import untrusted
from shoal.model.query.graph import Graph, InstanceId
from shoal.runtimes.spark.driver.position import MECHANISMS, Position
from shoal.runtimes.spark.rebinding.rebinding import Rebinding
from shoal.runtimes.spark.state.checkpoint import Checkpoint, Standing, StateRef
from shoal.runtimes.spark.state.signed_code import codes_of
from shoal.runtimes.spark.state.store import StateStore


def restored(checkpoint: Checkpoint, store: StateStore) -> tuple[int, Position, bool] | None:
    """The last committed epoch, the position after it, and whether it was the final one; None if there is none."""
    last = checkpoint.last_epoch()
    done = checkpoint.spark_epoch()
    if done > (-1 if last is None else last):
        raise CheckpointError(f"file {checkpoint.uri}/epochs/{done:010d} is missing, though Spark has done that epoch")
    if last is None:
        return None
    manifest = checkpoint.manifest(last)
    checkpoint.check_offsets(manifest)
    graph = checkpoint.unverified_graph(manifest.graph)
    homes, sizes = _homes(manifest.states, store)
    position = Position(
        graph,
        written_binding(graph, manifest, manifest.binding, manifest.workers),
        watermarks_us=manifest.watermarks_us,
        homes=homes,
        segment_bytes={ref.segment: ref.bytes for ref in manifest.states},
        segment_sizes=sizes,
        totals=manifest.totals,
        streams=manifest.streams,
        held=manifest.partitioning,
        rests=manifest.rests,
    )
    position = _standing(position, checkpoint, graph, manifest)
    rebinding = position.rebinding
    if rebinding is not None:  # it reports what it has lost before, together with the rest
        lost = tuple(loss.move for loss in manifest.losses if loss.rebind == rebinding.id)
        position = replace(position, rebinding=replace(rebinding, reports=lost))
    return last, position, manifest.final


def as_planned(checkpoint: Checkpoint, position: Position, epoch: int) -> Position:
    """The position with the graph and the binding that an interrupted epoch was planned with."""
    plan = checkpoint.plan(epoch)
    checkpoint.check_offsets(plan)
    graph = checkpoint.unverified_graph(plan.graph)
    planned = replace(
        _standing(position, checkpoint, graph, plan), dropped={each.instance: each for each in plan.dropped}
    )
    return under_way(position, planned)


def unreported(checkpoint: Checkpoint, last: int) -> list[MovesFinished]:
    """The rebindings that discarded state in the last epoch, if the run died before anybody can have heard of it.

    Spark commits an epoch after it was reported. So somebody may have heard of it after all, and hears of it again,
    under the same id. A rebinding that is still in progress reports its losses itself.
    """
    if last < 0 or checkpoint.spark_epoch() >= last:
        return []
    manifest = checkpoint.manifest(last)
    goal = manifest.goal.rebind if manifest.goal else None
    lost: dict[str, list[MoveReport]] = defaultdict(list)
    for loss in manifest.losses:
        if loss.rebind != goal:
            lost[loss.rebind].append(loss.move)
    return [MovesFinished(rebind, tuple(moves), resumed=True, at_s=time.time()) for rebind, moves in lost.items()]


def under_way(before: Position, planned: Position) -> Position:
    """A planned position, its rebinding completed with the moves that take effect in that epoch.

    Losses of a rebinding from before are reported with it, or with the epoch if that has ended it.
    """
    rebinding, earlier = planned.rebinding, before.rebinding
    if earlier is not None and earlier.reports:
        if rebinding is None or rebinding.id != earlier.id:
            planned = replace(planned, closed=(*planned.closed, replace(earlier, now=())))
        else:
            rebinding = replace(rebinding, reports=earlier.reports)
    if rebinding is None:
        return planned
    worker_of = rebinding.goal.worker_of
    known = {move.instance for move in rebinding.now}
    moves = (move for move in before.binding.diff(planned.binding) if move.instance not in known)
    now = rebinding.moving(move for move in moves if worker_of[move.instance] == move.target)
    return replace(planned, rebinding=now)


def verify_code(checkpoint: Checkpoint, graph: Graph, planned: Graph) -> None:
    """Raise if a graph has code that comes from the checkpoint, e.g. with a command, and is not signed.

    Code that the job supplies needs no signature, and code that is no longer used is not looked at.
    """
    if untrusted(codes_of(graph.operators.values())):
        checkpoint.graph(planned.digest)


def check_streams(position: Position, streams: set[str], uri: str) -> None:
    """Reject a job with other streams than the checkpoint; Spark stores offsets by number, not by name."""
    if set(position.streams) != streams:
        raise CheckpointError(
            f"checkpoint {uri} reads stream {', '.join(position.streams)}; "
            f"this job has sources for {', '.join(sorted(streams))}; start it with another checkpoint"
        )


def still_parked(declared: Graph, position: Position) -> tuple[ParkedQuery, ...]:
    """The queries that stay parked: not those that the job declares otherwise now, or not at all."""
    added = {name for name in position.added if name in position.removed or name not in declared.queries}
    return tuple(
        each
        for each in position.parked
        if each.name in added or (each.name in declared.queries and digest(declared.queries[each.name]) == each.digest)
    )


def desired(declared: Graph, position: Position) -> Graph:
    """The queries of a restarted job: those it declares, with the additions and removals of earlier runs.

    Queries that are still parked are left out.
    """
    before = position.graph.queries
    gone = {*position.removed, *(each.name for each in still_parked(declared, position))}
    queries = {name: query for name, query in declared.queries.items() if name not in gone}
    queries |= {name: before[name] for name in position.added if name in before and name not in queries}
    return Graph(queries)


def _standing(position: Position, checkpoint: Checkpoint, graph: Graph, written: Standing) -> Position:
    """A position with the queries and bindings of a plan or manifest."""
    return replace(
        position,
        graph=graph,
        binding=written_binding(graph, written, written.binding, written.workers),
        coming=written_binding(graph, written, written.coming, written.coming_workers) if written.coming else None,
        partitioning=written.partitioning,
        rebinding=_rebinding(checkpoint, graph, written),
        declared=written.declared,
        added=written.added,
        removed=written.removed,
        parked=written.parked,
        ended=frozenset(written.ended),
        shedding=written.shedding,
        postponed={each.instance: each for each in written.postponed},
        on_demand=written.on_demand,
    )


def written_binding(graph: Graph, written: Standing, numbers: Sequence[int], workers: int) -> Binding:
    """The binding of a plan or manifest, without instances that no longer have slots."""
    placed = dict(zip(program_instances(graph, written.partitioning), numbers, strict=True))
    return Binding.of({instance: placed[instance] for instance in written.partitioning.instances(graph)}, workers)


def _rebinding(checkpoint: Checkpoint, graph: Graph, written: Standing) -> Rebinding | None:
    """The rebinding that was in progress."""
    goal = written.goal
    if goal is None:
        return None
    if goal.mechanism not in MECHANISMS:
        raise CheckpointError(
            f"checkpoint {checkpoint.uri} has a rebinding in progress by mechanism {goal.mechanism!r}; "
            f"this version has {', '.join(MECHANISMS)}"
        )
    wanted = written_binding(graph, written, goal.binding, goal.workers)
    here = written_binding(graph, written, written.binding, written.workers).worker_of
    unread = tuple(
        Move(each.instance, WorkerId(each.source), here[each.instance])
        for each in written.postponed
        if here[each.instance] == wanted.worker_of[each.instance] != each.source
    )
    return Rebinding(goal.rebind, goal.mechanism, wanted, resumed=True, now=unread)


def _homes(states: tuple[StateRef, ...], store: StateStore) -> tuple[Mapping[InstanceId, str], Mapping[str, int]]:
    """The segment of each instance, and the instances per segment; reads, and so checks, every segment."""
    homes: dict[InstanceId, str] = {}
    sizes: dict[str, int] = {}
    for ref in states:
        instances = [instance for part in store.read(ref.segment) for instance in part.instances]
        sizes[ref.segment] = len(instances)
        current = None if ref.instances is None else set(ref.instances)
        homes.update({i: ref.segment for i in instances if current is None or i in current})
    return homes, sizes
