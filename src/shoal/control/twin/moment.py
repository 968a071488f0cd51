"""The moment of a migration: at once, or once windows have closed and their state is gone.

1. A migration can begin when the controller decides, after each observation. Of the moments until the bound, those
   count that are the first after a closing of windows of the instances that move.
2. The twin predicts the cost of each, with the state that is expected then. As a share of all events until the move
   must have paid off, it is the cost C of the decision model. Who goes later keeps the score of its worker until then.
3. A migration waits if that costs clearly less and the benefit is larger. The next observation asks again.
4. The bound counts from when a migration first waited. What has waited for so long begins.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from shoal.control.decision import Choice
from shoal.control.names import readable, readable_bytes
from shoal.control.observation import Observation

CLEARLY = 0.5
"""Share of its cost that a migration must save to wait."""
MOST_MOMENTS = 3
"""Later moments that are predicted: the first ones."""
ROUNDING = 1e-6


@dataclass(frozen=True)
class Moment:
    """When a migration could begin: how long that is away, with which mechanism, and what it costs then.

    `cost` is the objective in event-seconds, `choice` has it as a share. `until`: what it waits for.
    """

    wait_s: float
    mechanism: str
    cost: float
    state_bytes: float
    choice: Choice
    until: str = "windows have closed"

    def benefit(self, stay: float) -> float:
        """The benefit of going then; `stay`: the score of the worker until then."""
        return waited_benefit(stay, self.choice, self.wait_s)


def waited_benefit(stay: float, choice: Choice, wait_s: float) -> float:
    """The benefit of a move that begins later: for part of the time in which it must pay off, nothing has changed.

    >>> waited_benefit(1.0, Choice(1, score=2.0, cost=0.5, amortisation_s=60.0), wait_s=30.0)
    1.0
    >>> waited_benefit(1.0, Choice(1, score=2.0, cost=0.0, amortisation_s=60.0), wait_s=30.0)
    1.5
    """
    waiting = min(1.0, wait_s / choice.amortisation_s) if choice.amortisation_s > 0 else float(wait_s > 0)
    return waiting * stay + (1 - waiting) * choice.benefit


def waits_s(closings_s: Iterable[float], step_s: float, most_s: float) -> tuple[float, ...]:
    """The waits after which windows have closed, in whole observations and no longer than `most_s`.

    >>> waits_s([2.5, 2.9, 7.0, 12.0], step_s=1.0, most_s=10.0)
    (3.0, 7.0)
    """
    steps = {max(1, ceil(closing_s / step_s - ROUNDING)) for closing_s in closings_s}
    return tuple(step * step_s for step in sorted(steps) if step * step_s <= most_s + ROUNDING)[:MOST_MOMENTS]


def best_moment(moments: Sequence[Moment], stay: float) -> Moment:
    """The first moment, which is now, unless a later one costs clearly less and is worth the wait."""
    now = moments[0]
    later = [each for each in moments[1:] if each.cost <= (1 - CLEARLY) * now.cost]
    return max((now, *later), key=lambda each: each.benefit(stay))


@dataclass
class Patience:
    """How long a migration has waited, and why; `most_s` bounds it.

    It is a trigger, too: other triggers need not fire again while moves wait.
    """

    most_s: float
    _since_s: float | None = None
    _until_s: float = 0.0
    _cost: float = 0.0
    _reason: str = ""
    _waiting: bool = False

    def left_s(self, now_s: float) -> float:
        """How much longer a migration may wait. What has not been asked for in a long time has not waited."""
        if self._since_s is not None and now_s - self._since_s > 2 * self.most_s:
            self._since_s = None
        return self.most_s if self._since_s is None else self._since_s + self.most_s - now_s

    def fires(self, observation: Observation, now_s: float) -> str:  # noqa: ARG002
        """Ask the policy again while moves wait."""
        waited_s = 0.0 if self._since_s is None else now_s - self._since_s
        return f"moves have waited for {readable(waited_s)}" if self._waiting else ""

    def rest(self) -> None:
        """Note that there are no moves to make for now."""
        self._waiting = False

    def wait(self, now: Moment, then: Moment, step_s: float, now_s: float) -> str:
        """Note that a migration waits, and return the reason: the same one as long as it waits for the same time."""
        until_s, self._waiting = now_s + then.wait_s, True
        if self._since_s is None:
            self._since_s, self._cost, self._reason = now_s, now.cost, ""
        if not self._reason or abs(until_s - self._until_s) > step_s:
            bound_s = self._since_s + self.most_s - now_s
            self._until_s, self._reason = (
                until_s,
                (
                    f"the twin waits about {readable(then.wait_s)}, until {then.until}: moving "
                    f"{readable_bytes(now.state_bytes)} costs {now.cost:.3g} event-seconds now by {now.mechanism}, and "
                    f"{then.cost:.3g} with {readable_bytes(then.state_bytes)} then by {then.mechanism}; "
                    f"it waits for {readable(bound_s)} at most"
                ),
            )
        return self._reason

    def go(self, moments: Sequence[Moment], now_s: float) -> str:
        """Note that a migration begins, and return why it does now; empty if there was no other moment."""
        since_s, self._since_s, self._reason, self._waiting = self._since_s, None, "", False
        if since_s is not None:
            costs = f", at a cost of {moments[0].cost:.3g} rather than {self._cost:.3g}" if moments else ""
            end = ", and no window closes before it has waited as long as it may" if len(moments) == 1 else ""
            return f"after a wait of {readable(now_s - since_s)}{costs}{end}"
        if len(moments) < 2:
            return ""
        return f"at once, since it is worth no wait: in {readable(moments[1].wait_s)} it costs {moments[1].cost:.3g}"
