"""Promises: what the last decision is expected to bring, until it has been measured, and the pause before the next."""

from dataclasses import dataclass, replace

from shoal.control.journal import Aborted, Decided, Entry
from shoal.control.observation import Observation
from shoal.control.proposal import kept_its_promise, measured
from shoal.control.settings import ControlSettings
from shoal.model.control.messages import MovesFinished
from shoal.policies.binding.goal import PlacementGoal


@dataclass
class _Pending:
    """A decision whose effect has not been measured yet, and whether its moves have been made."""

    decided: Decided
    rebind: str
    made: bool = False


class Promises:
    """Has at most one decision at a time; a decision that is worth little doubles the pause after it."""

    def __init__(self, settings: ControlSettings) -> None:
        """Nothing has been decided yet."""
        self._settings = settings
        self._pending: _Pending | None = None
        self._rest_s = settings.rest_s
        self._until_s = float("-inf")

    @property
    def open(self) -> bool:
        """Whether a decision is still to be measured."""
        return self._pending is not None

    def add(self, decision: Decided, rebind: str) -> None:
        """Expect what a decision promises, once the rebinding of that id has been made."""
        self._pending = _Pending(decision, rebind)

    def drop(self) -> None:
        """Measure nothing: what was promised cannot be told apart from what has changed."""
        self._pending = None

    def drop_made(self) -> None:
        """Measure nothing if the moves have been made: another command changes what would be measured."""
        if self._pending is not None and self._pending.made:
            self._pending = None

    def refuse(self, rebind: str) -> None:
        """Note that the runtime refused a rebinding."""
        if self._pending is not None and self._pending.rebind == rebind:
            self._pending = None

    def pause(self, now_s: float) -> None:
        """Decide nothing for a while."""
        self._until_s = now_s + self._rest_s

    def resting(self, now_s: float) -> bool:
        """Whether the pause lasts."""
        return now_s < self._until_s

    def finished(self, event: MovesFinished, now_s: float, *, overtaken: bool) -> tuple[Entry, ...]:
        """Note that moves were made, or given up: then there is nothing to measure.

        `overtaken`: other moves are under way, which change what would be measured.
        """
        pending = self._pending
        if pending is None or pending.rebind != event.rebind:
            return ()
        pending.made = not event.aborted
        if pending.made and not overtaken:
            return ()
        self._pending = None
        if pending.made:
            return ()
        made, reason = len(event.moves) - len(event.aborted), event.aborted[0].aborted
        return (Aborted(now_s, pending.decided.number, made, len(event.aborted), reason),)

    def measured(
        self, observation: Observation, goal: PlacementGoal | None, epoch: int, now_s: float
    ) -> tuple[Entry, ...]:
        """Compare the effect of the decision with its promise, by an observation from after its moves."""
        pending = self._pending
        if pending is None or not pending.made:
            return ()
        self._pending = None
        entry = measured(pending.decided, observation, goal, epoch, now_s, self._rest_s)
        worth = kept_its_promise(entry)
        self._rest_s = self._settings.rest_s if worth else min(self._settings.most_rest_s, 2 * self._rest_s)
        self._until_s = now_s + (0.0 if worth else self._rest_s)
        return (replace(entry, rest_s=self._rest_s),)
