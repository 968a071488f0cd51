"""Pace: a rebinding is carried out in steps, each so small that its epoch takes hardly longer than the others."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.model.binding import Binding
from shoal.model.costs import LinkCosts, MeasuredMoves
from shoal.model.graph import InstanceId
from shoal.model.messages import EpochCommitted
from shoal.runtimes.spark.position import Position

SHARE = 0.1
"""Share of an epoch's time that may go to the reading of state that has moved."""
LEAST_BYTES = 4 << 20
"""So much may always move: it takes less time than epochs differ by themselves."""
FIRST_BYTES_PER_S = 200e6
"""How fast moved state is taken to be read before any has been."""
FRESH = 0.3
"""Weight of the newest epoch in what is known."""


@dataclass
class Pace:
    """What may move in one epoch, by how long epochs take and how fast moved state was read so far."""

    _epoch_s: float = field(default=0.0, init=False)
    _binding: Binding | None = field(default=None, init=False)
    _costs: LinkCosts = field(default=LinkCosts(FIRST_BYTES_PER_S, newest=FRESH), init=False)

    def learn(self, event: EpochCommitted) -> None:
        """Take an epoch into account: with moves for the speed of reading, without for how long epochs take."""
        if event.state_bytes_moved and event.migration_s > 0:
            self._costs = self._costs.learned(MeasuredMoves.of(event, self._binding))
        elif event.rows:
            known_s = self._epoch_s or event.duration_s
            self._epoch_s = known_s + FRESH * (event.duration_s - known_s)
        self._binding = event.snapshot.binding

    @property
    def most_bytes(self) -> int:
        """How many bytes of state may move in an epoch."""
        return max(LEAST_BYTES, self._costs.bytes_within(SHARE * self._epoch_s))


def step(position: Position, wanted: Binding, most_bytes: int) -> Binding:
    """As far from a position's binding towards another as so many bytes of state allow, and one instance at least.

    Instances on workers that are to go are first; what lies in one segment, which is read as a whole, goes together.
    """
    now = position.binding.worker_of
    moving = [instance for instance, worker in wanted.worker_of.items() if now.get(instance) != worker]
    moving.sort(key=lambda i: (now.get(i, 0) < wanted.workers, position.homes.get(i, "")))
    size_of = _sizes(position)
    after, carried = dict(now), 0.0
    for instance in moving:
        size = size_of.get(instance, 0.0)
        if carried and carried + size > most_bytes:
            break
        after[instance] = wanted.worker_of[instance]
        carried += size
    else:
        return wanted
    return Binding(after, max(wanted.workers, 1 + max(after.values())))


def _sizes(position: Position) -> Mapping[InstanceId, float]:
    """Bytes of each instance's state: those of its segment, divided evenly."""
    share = {name: size / position.segment_sizes[name] for name, size in position.segment_bytes.items()}
    return {instance: share[segment] for instance, segment in position.homes.items()}
