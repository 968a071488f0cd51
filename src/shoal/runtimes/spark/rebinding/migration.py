"""Migration between epochs: the plan of a rebinding is executed queue by queue, within the limits of each epoch.

An epoch fixes every instance's worker, so a move is one step: from the next epoch on the instance belongs to another
worker, which reads its state from the store. The queues of a plan decide the epoch.

1. Transfers in the preamble queue are announced: the new workers read ahead during the next epoch and own the instances
   from the one after.
2. The whole critical queue moves with the next epoch.
3. The normal queue moves up to the limit of the migration throttle, but at least one instance with state.
4. The rest is planned again for the epoch after, from the binding and the goal, which are all that a restart needs. An
   instance that an earlier rebinding has just moved stays for one epoch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shoal.errors import MechanismError
from shoal.mechanisms.all_at_once import MOVE
from shoal.mechanisms.catalog import MECHANISMS
from shoal.mechanisms.plan import Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import Binding, Move
from shoal.model.control.costs import LinkCosts
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.driver.position import Position

QUEUES = frozenset({Queue.PREAMBLE, Queue.CRITICAL, Queue.NORMAL})
STEPS = frozenset({StepKind.PREAMBLE, *MOVE})
"""The steps that can be executed between epochs."""


@dataclass(frozen=True)
class Limits:
    """The most bytes of the normal queue in an epoch, with the costs of links and the node of each worker."""

    most_bytes: int
    costs: LinkCosts = field(default_factory=LinkCosts)
    node_of: Sequence[int] = ()


def advanced(position: Position, limits: Limits) -> Position:
    """The position of the next epoch, with the moves that one epoch may make."""
    rebinding = position.rebinding
    if rebinding is None:
        return position
    goal = rebinding.goal
    transfers = _transfers(position, goal, limits.node_of)
    plan = executable(MECHANISMS[rebinding.mechanism].plan(transfers, limits.costs))
    announced = plan.served(Queue.PREAMBLE)
    if announced:
        return replace(position, coming=_after(position.binding, announced, goal))
    made = (*plan.served(Queue.CRITICAL), *_within(plan.served(Queue.NORMAL), limits.most_bytes))
    binding = _after(position.binding, made, goal)
    moves = tuple(Move(each.instance, each.source, each.target) for each in made)
    return replace(position, binding=binding, rebinding=rebinding.moving(moves))


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
