"""Migration between epochs: the plan of a rebinding is executed queue by queue, within the limits of each epoch.

An epoch fixes every instance's worker, so a move is one step: from the next epoch on the instance belongs to another
worker, which reads its state from the store. The queues of a plan decide the epoch.

1. Transfers in the preamble queue are announced: the new workers own the instances from the epoch after the next. In
   between they read ahead; or, if they are to start without state, the old workers say how long it can be left alone.
2. The whole critical queue moves with the next epoch. State that a step drops is counted by its old worker, and gone;
   instances that are split or merged with the same epoch wait for the next, since only whole instances are dropped.
3. The normal queue moves up to the limit of the migration throttle, but at least one instance with state.
4. State that was left behind by targets that started without it is read in the background, in the order of the plan, up
   to the same limit; what is needed sooner is read by the tasks.
5. The rest is planned again for the epoch after, from the binding and the goal, which are all that a restart needs. An
   instance that an earlier rebinding has just moved stays for one epoch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shoal.errors import MechanismError
from shoal.mechanisms.all_at_once import MOVE
from shoal.mechanisms.catalog import MECHANISMS
from shoal.mechanisms.plan import Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import Binding, Move, WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.control.fragment import Fragments
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.driver.position import Position

QUEUES = frozenset({Queue.PREAMBLE, Queue.CRITICAL, Queue.DEADLINE, Queue.NORMAL})
STEPS = frozenset({StepKind.PREAMBLE, StepKind.START, StepKind.DROP, *MOVE})
"""The steps that can be executed between epochs."""


@dataclass(frozen=True)
class Limits:
    """The most bytes of the normal queue in an epoch, with the costs of links and the node of each worker."""

    most_bytes: int
    costs: LinkCosts = field(default_factory=LinkCosts)
    node_of: Sequence[int] = ()


def advanced(position: Position, limits: Limits) -> Position:
    """The position of the next epoch, with the moves and the reading of state that one epoch may make."""
    return _with_reading(_with_moves(position, limits), limits)


def _with_moves(position: Position, limits: Limits) -> Position:
    rebinding = position.rebinding
    if rebinding is None:
        return position
    goal = rebinding.goal
    transfers = _transfers(position, goal, limits.node_of)
    plan = executable(MECHANISMS[rebinding.mechanism].plan(transfers, limits.costs))
    if StepKind.DROP in plan.kinds and position.heirs:
        whole = [each for each in transfers if each.instance not in _divided(position)]
        plan = executable(MECHANISMS[rebinding.mechanism].plan(whole, limits.costs))
    announced = plan.served(Queue.PREAMBLE)
    if announced:
        starts = any(batch.queue is Queue.PREAMBLE and StepKind.START in batch.kinds for batch in plan.batches)
        return replace(position, coming=_after(position.binding, announced, goal), on_demand=starts)
    made = (*plan.served(Queue.CRITICAL), *_within(plan.served(Queue.NORMAL), limits.most_bytes))
    binding = _after(position.binding, made, goal)
    moves = tuple(Move(each.instance, each.source, each.target) for each in made)
    after = position.without_state(moves) if StepKind.DROP in plan.kinds else position.with_postponed(moves)
    return replace(after, binding=binding, rebinding=rebinding.moving(moves))


def _with_reading(position: Position, limits: Limits) -> Position:
    """The position with the postponed state that is read in the background in the next epoch."""
    waiting = {i: each for i, each in position.postponed.items() if not each.load}
    if not waiting:
        return position
    ordered = [
        transfer
        for mechanism in dict.fromkeys(each.mechanism for each in waiting.values())
        for transfer in _following(position, mechanism, limits)
    ]
    chosen = {
        each.instance: replace(waiting[each.instance], ahead=True) for each in _within(ordered, limits.most_bytes)
    }
    return replace(position, postponed={**position.postponed, **chosen})


def _following(position: Position, mechanism: str, limits: Limits) -> Sequence[Transfer]:
    """The transfers whose state was left behind, in the order in which a mechanism sends it."""
    size_of = _sizes(position)
    left = [each for each in position.postponed.values() if each.mechanism == mechanism and not each.load]
    left.sort(key=lambda each: position.homes.get(each.instance, ""))
    transfers = [
        Transfer(
            each.instance,
            WorkerId(each.source),
            position.binding.worker_of[each.instance],
            round(size_of.get(each.instance, 0)),
            Fragments.whole(number, round(size_of.get(each.instance, 0)), each.rest.due_us),
        )
        for number, each in enumerate(left)
    ]
    plan = executable(MECHANISMS[mechanism].plan(transfers, limits.costs))
    return [transfer for batch in plan.batches if batch.ids is not None for transfer in batch.transfers]


def executable(plan: Plan) -> Plan:
    """The plan itself if it can be executed between epochs; raises otherwise."""
    odd = [f"queue {queue.name.lower()}" for queue in plan.queues - QUEUES]
    odd += [f"step {kind}" for kind in plan.kinds - STEPS]
    if odd:
        raise MechanismError(f"mechanism {plan.mechanism} has {odd[0]}, which Spark cannot execute")
    return plan


def _transfers(position: Position, goal: Binding, node_of: Sequence[int]) -> list[Transfer]:
    """The remaining transfers: instances of workers to be removed first, those of one segment side by side."""
    size_of, homes = _sizes(position), position.homes
    arrived = {move.instance for rebinding in position.closed for move in rebinding.now}
    moves = [move for move in position.binding.diff(goal) if move.instance not in arrived]
    moves.sort(key=lambda move: (move.source < goal.workers, homes.get(move.instance, "")))
    return [
        Transfer(
            move.instance, move.source, move.target, round(size_of.get(move.instance, 0)), link=_link(move, node_of)
        )
        for move in moves
    ]


def _divided(position: Position) -> frozenset[InstanceId]:
    """The instances that give or take state as others are split and merged."""
    return frozenset(position.heirs).union(*position.heirs.values())


def _link(move: Move, node_of: Sequence[int]) -> tuple[int, int]:
    known = len(node_of)
    return node_of[move.source] if move.source < known else 0, node_of[move.target] if move.target < known else 0


def _sizes(position: Position) -> Mapping[InstanceId, float]:
    """Bytes of each instance's state: those of its segment, divided evenly."""
    share = {name: size / position.segment_sizes[name] for name, size in position.segment_bytes.items()}
    return {instance: share[segment] for instance, segment in position.homes.items()}


def _within(transfers: Iterable[Transfer], most_bytes: int) -> Iterator[Transfer]:
    """The first transfers within `most_bytes`, but at least one with state."""
    taken = 0
    for transfer in transfers:
        if taken and taken + transfer.state_bytes > most_bytes:
            return
        taken += transfer.state_bytes
        yield transfer


def _after(binding: Binding, made: Iterable[Transfer], goal: Binding) -> Binding:
    """A binding after some transfers; workers to be removed count until they have no instances."""
    worker_of = {**binding.worker_of, **{each.instance: each.target for each in made}}
    if all(goal.worker_of[instance] == worker for instance, worker in worker_of.items()):
        return goal
    return Binding(worker_of, max(goal.workers, 1 + max(worker_of.values())))
