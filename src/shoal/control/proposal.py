"""Proposals: the binding that a policy proposes, judged move by move and as a whole."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.control.decision import Choice, Model, best
from shoal.control.history import scores
from shoal.control.journal import MOST_MOVES, CandidateWorker, Moving
from shoal.control.observation import Observation, peak
from shoal.control.settings import ControlSettings
from shoal.model.control.binding import Binding, Move
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.loads import Floats

CANDIDATES = 6
"""The most nodes whose best workers are listed with a move, beside the worker that it leaves and the one it goes to."""


@dataclass(frozen=True)
class Verdict:
    """The binding to use, and every move with the numbers it was judged by; `refused` says why nothing is done."""

    binding: Binding
    moves: tuple[Moving, ...] = ()
    refused: str = ""
    peak: float = 1.0


def judged(
    observation: Observation,
    wanted: Binding,
    past: Callable[[int], Sequence[float]],
    settings: ControlSettings,
    names: Mapping[InstanceId, str],
    away: Sequence[int] = (),
) -> Verdict:
    """Keep the moves of a proposal that pay, provided that all of them together lower the peak.

    `away`: workers that are no candidates, since their hosts are gone or about to go.

    A move is judged at the margin: its target as it is after all moves, against its source as it would be if this one
    move were not made.
    """
    moves = list(observation.binding.diff(wanted))
    if not moves:
        return Verdict(observation.binding, refused="the policy proposes no moves", peak=observation.peak)
    considered = _considered(observation, wanted, moves, past, settings.model, names, away)
    if settings.decision == "always":
        made = tuple(_accepted(moving) for moving in considered)
        return Verdict(wanted, made, peak=observation.peak)
    binding = observation.binding.after(move for move, one in zip(moves, considered, strict=True) if not one.refused)
    reason = _as_a_whole(observation, binding, considered, settings.least_gain)
    return Verdict(binding if not reason else observation.binding, considered, reason, observation.peak)


def _considered(
    observation: Observation,
    wanted: Binding,
    moves: Sequence[Move],
    past: Callable[[int], Sequence[float]],
    model: Model,
    names: Mapping[InstanceId, str],
    away: Sequence[int],
) -> tuple[Moving, ...]:
    after_s = observation.under(wanted)
    mean_s, there = float(after_s.mean()), scores(after_s)
    loads, place_of = observation.loads, {instance: place for place, instance in enumerate(observation.loads.instances)}
    history = {worker: past(worker) for worker in {int(move.target) for move in moves}}
    found = []
    for number, move in enumerate(moves):
        place = place_of.get(move.instance)
        rate = 0.0 if place is None else float(loads.rate_per_s[place])
        state_bytes = 0.0 if place is None else float(loads.state_bytes[place])
        target = int(move.target)
        work_s = 0.0 if place is None else float(observation.work_s[place])
        stays_s = work_s + _at(after_s, int(move.source))
        stay = Choice(int(move.source), mean_s / stays_s if stays_s > 0 else float(len(after_s)))
        moving_s = observation.moving_s(state_bytes, int(move.source), target)
        go = model.choice(target, float(there[target]), history[target], rate, moving_s)
        candidates: tuple[CandidateWorker, ...] = ()
        if number < MOST_MOVES:
            instead = _Instead(observation, after_s, work_s, rate, state_bytes, stay.worker)
            choices = (stay, go, *instead.choices(past, model, {stay.worker, go.worker, *away}))
            candidates = tuple(_candidate(choice, observation.host_of(choice.worker)) for choice in choices)
        name = names.get(move.instance, str(move.instance))
        found.append(_moving(str(move.instance), name, state_bytes, stay, go, candidates))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Instead:
    """An instance that is about to move, for the choices that it had besides."""

    observation: Observation
    after_s: Floats
    work_s: float
    rate: float
    state_bytes: float
    source: int

    def choices(
        self, past: Callable[[int], Sequence[float]], model: Model, without: Collection[int]
    ) -> tuple[Choice, ...]:
        """The idlest workers of the nodes after all moves, if the instance went there; no more than `CANDIDATES`."""
        node_of, idle = self.observation.topology.node_of, np.argsort(self.after_s, kind="stable").tolist()
        first: dict[int, int] = {}
        for worker in idle:
            if worker not in without and worker < len(node_of):
                first.setdefault(node_of[worker], worker)
            if len(first) == CANDIDATES:
                break
        return tuple(self._choice(worker, past(worker), model) for worker in first.values())

    def _choice(self, worker: int, past: Sequence[float], model: Model) -> Choice:
        there_s, mean_s = float(self.after_s[worker]) + self.work_s, float(self.after_s.mean())
        score = mean_s / there_s if there_s > 0 else float(len(self.after_s))
        moving_s = self.observation.moving_s(self.state_bytes, self.source, worker)
        return model.choice(worker, score, past, self.rate, moving_s)


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


def _at(worker_s: Floats, worker: int) -> float:
    return float(worker_s[worker]) if worker < len(worker_s) else 0.0


def _worse(stay: Choice, go: Choice) -> str:
    if go.score <= stay.score:
        return "the target would have no better score"
    return f"moving costs {go.cost:.1%} of the outputs of {go.amortisation_s:.3g} s, more than it gains"


def _accepted(moving: Moving) -> Moving:
    return Moving(**{**vars(moving), "refused": ""})


def _as_a_whole(observation: Observation, binding: Binding, considered: Sequence[Moving], least_gain: float) -> str:
    """Why none of the moves is made; empty if they are."""
    if all(moving.refused for moving in considered):
        return "no move pays"
    before, after = observation.peak, peak(observation.under(binding))
    if after > before - least_gain:
        return f"the load of the busiest worker would fall by less than {least_gain:.0%} of the mean"
    return ""
