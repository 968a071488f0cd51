"""Candidates: the host, the moment and the mechanism of a migration, by predicted cost and benefit.

1. The cost of a migration is what the objective says of its prediction. As a share of all events until the move must
   have paid off, it is the cost C of the decision model.
2. The benefit of going at once is B = P (1 - C), with the score P of the worker. Who goes later keeps the score of its
   worker for that part of the time.
3. There are three moments: now; when the next windows have closed, so that less state has to move; and as late as
   possible before the source is expected to go.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.control.decision import Choice, Model, amortisation_s, cost, deviation_percent
from shoal.control.twin.choice import Objective, choose
from shoal.control.twin.moment import waited_benefit
from shoal.control.twin.profile import LONGEST_S, MigrationProfile

NOW, CLOSED, LAST = "now", "after the next windows close", "before the source goes"
SAFETY = 1.5
"""Times the predicted duration that is left for a migration before its source goes."""


@dataclass(frozen=True, eq=False)
class Destination:
    """A worker that an instance could go to: its score, its past scores, and what is known of the way there."""

    worker: int
    score: float
    past: tuple[float, ...]
    profile: MigrationProfile


@dataclass(frozen=True)
class MigrationOption:
    """A way to go: where, how, when, and its benefit; `mechanism` is empty for staying."""

    choice: Choice
    mechanism: str = ""
    moment: str = NOW
    wait_s: float = 0.0
    benefit: float = 0.0


def candidates(
    stay: Choice,
    destinations: Sequence[Destination],
    model: Model,
    objective: Objective,
    among: Sequence[str],
) -> tuple[MigrationOption, ...]:
    """Staying, and the best mechanism for every worker and moment; the largest benefit first, staying among equals."""
    found = [MigrationOption(stay, benefit=stay.benefit)]
    for each in destinations:
        until_s = amortisation_s(deviation_percent(each.past), model.least_s, model.most_s)
        for moment, wait_s, profile in moments(each.profile, objective, among):
            best = choose(profile, objective, among)[0]
            share = cost(model.weight, best.cost, each.profile.rate * until_s)
            choice = Choice(each.worker, each.score, share, until_s)
            benefit = waited_benefit(stay.score, choice, wait_s)
            found.append(MigrationOption(choice, best.mechanism, moment, wait_s, benefit))
    return tuple(sorted(found, key=lambda each: -each.benefit))


def moments(
    profile: MigrationProfile, objective: Objective, among: Sequence[str]
) -> Iterator[tuple[str, float, MigrationProfile]]:
    """The moments at which a migration could begin, how far away they are, and its profile then."""
    yield NOW, 0.0, profile
    closed = after_closing(profile)
    if closed is not None and closed[0] < profile.left_s:
        yield CLOSED, *closed
    if profile.left_s < LONGEST_S:
        best = choose(replace(profile, left_s=LONGEST_S), objective, among)[0].prediction
        wait_s = profile.left_s - SAFETY * (best.seconds if best is not None else 0.0)
        if wait_s > 0:
            yield LAST, wait_s, replace(profile, left_s=profile.left_s - wait_s)


def after_closing(profile: MigrationProfile) -> tuple[float, MigrationProfile] | None:
    """When the next windows close, and what is left to move then; None if no window closes."""
    if not profile.slide_s:
        return None
    slide_us = round(profile.slide_s * 1e6)
    wait_us = slide_us - profile.watermark_us % slide_us
    wait_s = wait_us / 1e6
    stays = profile.deadline_s > wait_s
    kept = np.isin(np.arange(profile.keys.size), profile.key_of[stays])
    flow = profile.rates * profile.weight
    left = replace(
        profile,
        fragments=profile.fragments.where(stays),
        rates=profile.rates[kept],
        alike=profile.alike[kept] if profile.alike.size else profile.alike,
        new_rate=profile.new_rate + float(flow[~kept].sum()),
        watermark_us=profile.watermark_us + wait_us,
        left_s=max(0.0, profile.left_s - wait_s) if profile.left_s < LONGEST_S else LONGEST_S,
    )
    return wait_s, left
