"""The migration throttle: how much state may move in an epoch, so that it takes hardly longer than the others."""

from dataclasses import dataclass, field

from shoal.model.control.binding import Binding
from shoal.model.control.costs import LinkCosts, MeasuredMoves
from shoal.model.control.messages import EpochCommitted

SHARE = 0.1
"""Share of an epoch's time that may go to the reading of state that has moved."""
LEAST_BYTES = 4 << 20
"""So much may always move: it takes less time than epochs differ by themselves."""
FIRST_BYTES_PER_S = 200e6
"""How fast moved state is taken to be read before any has been."""
FRESH = 0.3
"""Weight of the newest epoch in what is known."""


@dataclass
class Throttle:
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
    def costs(self) -> LinkCosts:
        """What moves have been found to cost."""
        return self._costs

    @property
    def most_bytes(self) -> int:
        """How many bytes of state may move in an epoch."""
        return max(LEAST_BYTES, self._costs.bytes_within(SHARE * self._epoch_s))
