"""How many workers take turns: as few as keep up with the sources, since workers delay each other.

Every compiled call and every operation on a large array releases the interpreter lock, which has to be won back from
the other workers. A turn that closes a window makes dozens of such calls, so with a second worker it takes several
times as long. While one worker keeps up, the others stand by. Whether fewer would keep up is found out by trying; after
a failure it takes twice as long until the next try.
"""

from dataclasses import dataclass, replace

BEHIND = 8.0
"""Sources that are behind by so many times the target latency need more workers."""
KEEPS_UP = 2.0
"""While sources are behind by less, fewer workers are tried."""
PATIENCE = 40
"""The number of observations in a row before fewer workers are tried."""
MOST_PATIENCE = 640
SMOOTHING = 0.3
"""The weight of the newest observation."""


@dataclass(frozen=True)
class Concurrency:
    """How many of `most` workers take turns, and what it was decided on.

    >>> now = Concurrency(most=4, active=4)
    >>> for _ in range(PATIENCE):
    ...     now = now.observed(0.1)
    >>> now.active
    2
    >>> for _ in range(2):
    ...     now = now.observed(50.0)
    >>> now.active, now.patience
    (4, 80)
    """

    most: int
    active: int
    behind: float = 0.0
    calm: int = 0
    patience: int = PATIENCE

    def observed(self, behind: float) -> "Concurrency":
        """After an observation: how far sources are behind, in target latencies."""
        behind = SMOOTHING * behind + (1 - SMOOTHING) * self.behind
        if behind > BEHIND and self.active < self.most:
            patience = min(MOST_PATIENCE, 2 * self.patience)
            return replace(self, active=min(self.most, 2 * self.active), behind=0.0, calm=0, patience=patience)
        calm = self.calm + 1 if behind < KEEPS_UP and self.active > 1 else 0
        if calm < self.patience:
            return replace(self, behind=behind, calm=calm)
        return replace(self, active=(self.active + 1) // 2, behind=behind, calm=0)
