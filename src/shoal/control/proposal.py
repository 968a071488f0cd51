"""Proposals: the binding that a policy proposes, judged move by move and as a whole, and what came of it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np

from shoal.control.decision import Choice, Model, best
from shoal.control.effects.host_entries import HostChoice
from shoal.control.history import IDLE
from shoal.control.journal import MOST_MOVES, CandidateWorker, Decided, Measured, Moving
from shoal.control.observation import Observation, peak
from shoal.control.settings import ControlSettings
from shoal.model.control.binding import Binding, Move
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.goal import Aim, Judge, PlacementGoal
from shoal.policies.catalog import GOALS

WORTH = 0.25
"""Share of its promise that a decision must keep; if it keeps less, the pause before the next one is doubled."""
CANDIDATES = 6
"""The most nodes whose best workers are listed with a move, beside the worker that it leaves and the one it goes to."""


@dataclass(frozen=True)
class Verdict:
    """The binding to use, and every move with the numbers it was judged by; `refused` says why nothing is done.

    `postponed`: the moves pay and will be made, at a later moment.
    `before` and `expected` are what the goal of the policy has before and after, if it has a goal of its own. `hosts`:
    where the twin has chosen other hosts than the policy.
    """

    binding: Binding
    moves: tuple[Moving, ...] = ()
    refused: str = ""
    peak: float = 1.0
    before: Aim | None = None
    expected: Aim | None = None
    postponed: bool = False
    hosts: tuple[HostChoice, ...] = ()


@dataclass(frozen=True)
class Case:
    """What a proposal is judged by: past scores of workers, settings, names of instances, and the policy's own goal.

    `away`: workers that are no candidates, since their hosts are gone or about to go.
    """

    past: Callable[[int], Sequence[float]]
    settings: ControlSettings
    names: Mapping[InstanceId, str]
    goal: PlacementGoal | None = None
    away: Sequence[int] = ()

    @property
    def model(self) -> Model:
        """The decision model."""
        return self.settings.model


def judged(observation: Observation, wanted: Binding, case: Case) -> Verdict:
    """Keep the moves of a proposal that pay, provided that all of them together lower the peak, or serve the goal.

    A move is judged at the margin: its target as it is after all moves, against its source as it would be if this one
    move were not made.
    """
    moves = list(observation.binding.diff(wanted))
    if not moves:
        return Verdict(observation.binding, refused="the policy proposes no moves", peak=observation.peak)
    judge = judge_of(observation, case)
    scores_of = scores_under(observation, wanted, judge)
    considered = _considered(observation, moves, scores_of, case)
    always = case.settings.decision == "always"
    if always:
        considered = tuple(replace(moving, refused="") for moving in considered)
    binding = observation.binding.after(move for move, one in zip(moves, considered, strict=True) if not one.refused)
    before = expected = None
    if judge is not None:
        before, expected = (judge.aim(observation.placed_by(each)) for each in (observation.binding, binding))
    least = case.settings.least_gain
    reason = "" if always else _as_a_whole(observation, binding, considered, least, before, expected)
    kept = observation.binding if reason else binding
    return Verdict(kept, considered, reason, observation.peak, before, expected)


def judge_of(observation: Observation, case: Case) -> Judge | None:
    """What the goal of the policy says of placements; None if it aims at an even load."""
    if case.goal is None:
        return None
    return case.goal.judge(observation.loads, observation.binding, observation.topology)


def scores_under(observation: Observation, wanted: Binding, judge: Judge | None) -> "WorkerScores":
    """The scores of workers if a proposal is carried out, by the goal of the policy or by load."""
    return _LoadScores(observation, wanted) if judge is None else _GoalScores(observation, wanted, judge)


class WorkerScores(Protocol):
    """Scores of workers for one instance, if all other moves are made."""

    def of(self, place: int | None, move: Move) -> Callable[[int], float]:
        """The score of the instance of a move on any worker; larger is better."""


class _LoadScores:
    """The mean work of all workers over that of the worker, with the instance on it."""

    def __init__(self, observation: Observation, wanted: Binding) -> None:
        self._observation, self._after_s = observation, observation.under(wanted)
        self._mean_s = float(self._after_s.mean())

    def of(self, place: int | None, move: Move) -> Callable[[int], float]:
        work_s = 0.0 if place is None else float(self._observation.work_s[place])

        def score(worker: int) -> float:
            after_s = float(self._after_s[worker]) if worker < len(self._after_s) else 0.0
            there_s = after_s if worker == move.target else after_s + work_s
            return self._mean_s / there_s if there_s > IDLE * self._mean_s else float(len(self._after_s))

        return score


class _GoalScores:
    """What the instance costs where it is, over what it costs on the worker, by the goal of the policy."""

    def __init__(self, observation: Observation, wanted: Binding, judge: Judge) -> None:
        self._judge, self._placed = judge, observation.placed_by(wanted)

    def of(self, place: int | None, move: Move) -> Callable[[int], float]:
        if place is None:
            return lambda _: 1.0
        here = self._judge.cost(self._placed, place, int(move.source))
        return lambda worker: here / self._judge.cost(self._placed, place, worker)


def _considered(
    observation: Observation, moves: Sequence[Move], scores_of: WorkerScores, case: Case
) -> tuple[Moving, ...]:
    loads, place_of = observation.loads, {instance: place for place, instance in enumerate(observation.loads.instances)}
    idlest = np.argsort(observation.worker_s, kind="stable").tolist()
    model = case.model
    until_s = cache(lambda worker: model.until_s(case.past(worker)))  # the same for all moves to a worker
    found = []
    for number, move in enumerate(moves):
        place = place_of.get(move.instance)
        rate = 0.0 if place is None else float(loads.rate_per_s[place])
        state_bytes = 0.0 if place is None else float(loads.state_bytes[place])
        source, target, score = int(move.source), int(move.target), scores_of.of(place, move)

        def choice(worker: int) -> Choice:
            moving_s = observation.moving_s(state_bytes, source, worker)  # noqa: B023  (called in this turn only)
            return model.choice_within(until_s(worker), worker, score(worker), rate, moving_s)  # noqa: B023

        stay, go = Choice(source, score(source)), choice(target)
        candidates: tuple[CandidateWorker, ...] = ()
        if number < MOST_MOVES:
            others = _others(observation, idlest, {source, target, *case.away})
            choices = (stay, go, *map(choice, others))
            candidates = tuple(_candidate(each, observation.host_of(each.worker)) for each in choices)
        name = case.names.get(move.instance, str(move.instance))
        found.append(_moving(str(move.instance), name, state_bytes, stay, go, candidates))
    return tuple(found)


def _others(observation: Observation, idlest: Sequence[int], without: Collection[int]) -> list[int]:
    """The idlest workers of the nodes, no more than `CANDIDATES`."""
    first: dict[int, int] = {}
    for worker in idlest:
        if worker not in without:
            first.setdefault(observation.topology.node_of[worker], worker)
        if len(first) == CANDIDATES:
            break
    return list(first.values())


def _moving(
    instance: str, name: str, state_bytes: float, stay: Choice, go: Choice, candidates: tuple[CandidateWorker, ...]
) -> Moving:
    """The move as the journal has it."""
    return Moving(
        instance,
        name,
        stay.worker,
        go.worker,
        round(state_bytes),
        round(stay.score, 4),
        round(go.score, 4),
        round(go.amortisation_s, 3),
        round(go.cost, 6),
        round(go.benefit, 4),
        "" if best([stay, go]) is go else _worse(stay, go),
        candidates,
    )


def _candidate(choice: Choice, host: str) -> CandidateWorker:
    return CandidateWorker(
        choice.worker,
        host,
        round(choice.score, 4),
        round(choice.cost, 6),
        round(choice.amortisation_s, 3),
        round(choice.benefit, 4),
    )


def _worse(stay: Choice, go: Choice) -> str:
    if go.score <= stay.score:
        return "the target would have no better score"
    return f"moving costs {go.cost:.1%} of the outputs of {go.amortisation_s:.3g} s, more than it gains"


def _as_a_whole(
    observation: Observation,
    binding: Binding,
    considered: Sequence[Moving],
    least_gain: float,
    before: Aim | None,
    expected: Aim | None,
) -> str:
    """Why none of the moves is made; empty if they are."""
    if all(moving.refused for moving in considered):
        return "no move pays"
    if before is not None and expected is not None:
        return _by_goal(before, expected, least_gain)
    if peak(observation.under(binding)) > observation.peak - least_gain:
        return f"the load of the busiest worker would fall by less than {least_gain:.0%} of the mean"
    return ""


def _by_goal(before: Aim, expected: Aim, least_gain: float) -> str:
    if expected.violation < before.violation:
        return ""
    if expected.violation > before.violation:
        return "without the moves that do not pay, limits would be exceeded by more than they are"
    if expected.amount > before.amount * (1 - least_gain):
        return f"what the policy aims at would fall by less than {least_gain:.0%}"
    return ""


def decided(
    observation: Observation, verdict: Verdict, number: int, why: str, policy: str, epoch: int, at_s: float
) -> Decided:
    """The decision for the moves of a verdict, with what it promises."""
    goal = GOALS.get(policy)
    moved = [move for move in verdict.moves if not move.refused]
    before, expected = verdict.before, verdict.expected
    return Decided(
        at_s=at_s,
        number=number,
        epoch=epoch,
        trigger=why,
        policy=policy,
        peak_before=observation.peak,
        peak_expected=peak(observation.under(verdict.binding)),
        latency_before_s=observation.slowest_s,
        moved=len(moved),
        stayed=len(verdict.moves) - len(moved),
        moved_bytes=sum(move.state_bytes for move in moved),
        moves=verdict.moves[:MOST_MOVES],
        goal="" if goal is None else goal.measure,
        goal_before=0.0 if before is None else before.amount,
        goal_expected=0.0 if expected is None else expected.amount,
        hosts=verdict.hosts,
    )


def measured(
    decision: Decided, observation: Observation, goal: PlacementGoal | None, epoch: int, at_s: float, rest_s: float
) -> Measured:
    """What a decision brought, by an observation from after its moves; `rest_s`: the pause if it was worth little."""
    after = 0.0
    if goal is not None:
        judge = goal.judge(observation.loads, observation.binding, observation.topology)
        after = judge.aim(observation.placed).amount
    return Measured(
        at_s,
        decision.number,
        epoch,
        decision.peak_before,
        decision.peak_expected,
        observation.peak,
        decision.latency_before_s,
        observation.slowest_s,
        rest_s,
        decision.goal,
        decision.goal_before,
        decision.goal_expected,
        after,
    )


def kept_its_promise(entry: Measured) -> bool:
    """Whether a decision brought enough of what it promised, by its goal if it has one."""
    if entry.goal:
        return entry.goal_before - entry.goal_after >= WORTH * (entry.goal_before - entry.goal_expected)
    return entry.peak_before - entry.peak_after >= WORTH * (entry.peak_before - entry.peak_expected)
