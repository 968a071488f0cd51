"""Streaks of bindings that were kept: the first is written with its reason, repetitions of it are only counted."""

from dataclasses import replace

from shoal.control.journal import MOST_MOVES, Entry, Kept
from shoal.control.proposal import Verdict


class KeptStreak:
    """Follows why nothing was done; `policy` is the one that was asked."""

    def __init__(self, policy: str) -> None:
        """Nothing was kept yet."""
        self._policy = policy
        self._kept: Kept | None = None

    def add(self, verdict: Verdict, why: str, epoch: int, now_s: float) -> tuple[Entry, ...]:
        """The entries for a verdict that does nothing; `why` the policy was asked."""
        kept = self._kept
        if kept is not None and kept.reason == verdict.refused:
            self._kept = replace(kept, at_s=now_s, epoch=epoch, times=kept.times + 1)
            return ()
        entries = self.ended()
        moves = verdict.moves[:MOST_MOVES]
        first = Kept(now_s, epoch, why, self._policy, verdict.refused, verdict.peak, moves=moves, hosts=verdict.hosts)
        self._kept = replace(first, times=0, moves=(), hosts=())
        return (*entries, first)

    def ended(self) -> tuple[Entry, ...]:
        """The count of repetitions of the last reason, if there were any; called before any other entry."""
        kept, self._kept = self._kept, None
        return (kept,) if kept is not None and kept.times else ()
