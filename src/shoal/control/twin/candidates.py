"""Candidates: the worker of a migration and its mechanism, by predicted cost and benefit.

1. The cost of a migration is what the objective says of its prediction. As a share of all events until the move must
   have paid off, it is the cost C of the decision model.
2. The benefit of going at once is B = P (1 - C), with the score P of the worker.
3. A worker whose host is away can be waited for. Who goes later keeps the score of its worker until then.
4. No benefit is larger than that of going at no cost. Workers that could not be the best at no cost are not predicted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shoal.control.decision import Choice, Model, cost
from shoal.control.twin.choice import Objective, choose
from shoal.control.twin.moment import Moment, waited_benefit
from shoal.control.twin.profile import MigrationProfile


@dataclass(frozen=True, eq=False)
class Destination:
    """A worker that an instance could go to: its score, its past scores, and what is known of the way there.

    `wait_s`: how long until its host is back; 0 if it is there.
    """

    worker: int
    score: float
    past: tuple[float, ...]
    profile: MigrationProfile
    wait_s: float = 0.0

    def until_s(self, model: Model) -> float:
        """The time within which the move must pay off."""
        return model.until_s(self.past)


@dataclass(frozen=True)
class MigrationOption:
    """A way to go: where, when and by which mechanism, with its benefit; `seconds` is how long it takes."""

    moment: Moment
    benefit: float
    seconds: float

    @property
    def worker(self) -> int:
        """The worker to go to."""
        return self.moment.choice.worker


def candidates(
    stay: float, destinations: Iterable[Destination], model: Model, objective: Objective, among: Sequence[str]
) -> tuple[MigrationOption, ...]:
    """The best mechanism for every worker that could be the best, the largest benefit first.

    `stay` is the score of the worker on which the instance is. The first destination is always among the options, and
    comes first among equals: it is what the policy proposes.
    """
    first, *others = destinations
    found = [_option(stay, first, model, objective, among)]
    most = {id(each): _at_no_cost(stay, each, model) for each in others}
    for each in sorted(others, key=lambda one: -most[id(one)]):
        if most[id(each)] <= max(option.benefit for option in found):
            break
        found.append(_option(stay, each, model, objective, among))
    return tuple(sorted(found, key=lambda option: -option.benefit))


def _at_no_cost(stay: float, each: Destination, model: Model) -> float:
    """A bound of the benefit of a destination."""
    return waited_benefit(stay, Choice(each.worker, each.score, 0.0, each.until_s(model)), each.wait_s)


def _option(
    stay: float, each: Destination, model: Model, objective: Objective, among: Sequence[str]
) -> MigrationOption:
    best, until_s = choose(each.profile, objective, among)[0], each.until_s(model)
    share = cost(model.weight, best.cost, each.profile.rate * until_s)
    choice = Choice(each.worker, each.score, share, until_s)
    moment = Moment(each.wait_s, best.mechanism, best.cost, each.profile.state_bytes, choice)
    seconds = 0.0 if best.prediction is None else best.prediction.seconds
    return MigrationOption(moment, moment.benefit(stay), seconds)
