"""Migration between epochs: the plan of a rebinding is executed queue by queue, as far as each epoch allows.

An epoch fixes every instance's worker, so that a move is one step: from the next epoch on the instance is another
worker's, which reads its state from the store. The queues of a plan tell when that is.

1. What has a preamble is announced. Its new workers read ahead during the epoch, and have it from the one after.
2. The critical queue moves with the next epoch, all of it.
3. The normal queue is taken as far as the migration throttle allows, and one instance with state at least.
4. What is left is planned again for the epoch after, from the binding and the goal, which are all that a restart needs.
   An instance that a rebinding before has just brought somewhere stays there for an epoch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shoal.errors import MechanismError
from shoal.mechanisms.catalog import MECHANISMS
from shoal.mechanisms.plan import Plan, Queue, StepKind, Transfer
from shoal.model.control.binding import Binding, Move
from shoal.model.control.costs import LinkCosts
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.driver.position import Position

QUEUES = frozenset({Queue.PREAMBLE, Queue.CRITICAL, Queue.NORMAL})
STEPS = frozenset(StepKind) - {StepKind.DROP}
"""What can be executed between epochs."""


@dataclass(frozen=True)
class Limits:
    """What an epoch may take of a plan: so many bytes of the normal queue; with what is known of links and nodes."""

    most_bytes: int
    costs: LinkCosts = field(default_factory=LinkCosts)
    node_of: Sequence[int] = ()


def advanced(position: Position, limits: Limits) -> Position:
    """The position of the next epoch: as far towards the goal of its rebinding as one epoch gets."""
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
    """A plan that can be executed between epochs; others are refused."""
    odd = [f"queue {queue.name.lower()}" for queue in plan.queues - QUEUES]
    odd += [f"step {kind}" for kind in plan.kinds - STEPS]
    if odd:
        raise MechanismError(f"mechanism {plan.mechanism} has {odd[0]}, which Spark cannot execute")
    return plan


def _transfers(position: Position, goal: Binding, node_of: Sequence[int]) -> list[Transfer]:
    """What is left to do: instances of workers that are to go first, what lies in one segment together."""
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
    """As many in their order as so many bytes allow, and one with state at least."""
    taken = 0
    for transfer in transfers:
        if taken and taken + transfer.state_bytes > most_bytes:
            return
        taken += transfer.state_bytes
        yield transfer


def _after(binding: Binding, made: Iterable[Transfer], goal: Binding) -> Binding:
    """A binding after some transfers; the workers that are to go count until nobody is left on them."""
    worker_of = {**binding.worker_of, **{each.instance: each.target for each in made}}
    if all(goal.worker_of[instance] == worker for instance, worker in worker_of.items()):
        return goal
    return Binding(worker_of, max(goal.workers, 1 + max(worker_of.values())))
