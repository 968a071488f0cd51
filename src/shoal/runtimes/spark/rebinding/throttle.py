"""The migration throttle: limits the state that moves in an epoch, so that epochs with moves take hardly longer."""

from dataclasses import dataclass, field

from shoal.model.control.binding import Binding
from shoal.model.control.costs import LinkCosts, MeasuredMoves
from shoal.model.control.messages import EpochCommitted

SHARE = 0.1
"""The share of an epoch's time that may be spent on reading moved state."""
LEAST_BYTES = 4 << 20
"""Always allowed: reading it takes less time than epochs vary by anyway."""
FIRST_BYTES_PER_S = 200e6
"""The assumed reading speed before the first measurement."""
FRESH = 0.3
"""Weight of the newest epoch in the averages."""


@dataclass
class Throttle:
    """Computes the limit from the duration of epochs and the measured speed of reading moved state."""

    _epoch_s: float = field(default=0.0, init=False)
    _binding: Binding | None = field(default=None, init=False)
    _costs: LinkCosts = field(default=LinkCosts(FIRST_BYTES_PER_S, newest=FRESH), init=False)

    def learn(self, event: EpochCommitted) -> None:
        """Called after every epoch; one with moves updates the reading speed, others the usual duration."""
        if event.state_bytes_moved and event.migration_s > 0:
            self._costs = self._costs.learned(MeasuredMoves.of(event, self._binding))
        elif event.rows:
            known_s = self._epoch_s or event.duration_s
            self._epoch_s = known_s + FRESH * (event.duration_s - known_s)
        self._binding = event.snapshot.binding

    @property
    def costs(self) -> LinkCosts:
        """The measured costs of moves."""
        return self._costs

    @property
    def most_bytes(self) -> int:
        """The most bytes of state that may move in an epoch."""
        return max(LEAST_BYTES, self._costs.bytes_within(SHARE * self._epoch_s))
