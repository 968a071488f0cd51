"""Proposals: what a policy wants, judged move by move and as a whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shoal.control.decision import Model, Place, best
from shoal.control.history import scores
from shoal.control.journal import Moving
from shoal.control.observation import Look, peak
from shoal.control.settings import ControlSettings
from shoal.model.control.binding import Binding, Move
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.loads import Floats


@dataclass(frozen=True)
class Verdict:
    """The binding to use, and every move with the numbers it was judged by; or why nothing is done."""

    binding: Binding
    moves: tuple[Moving, ...] = ()
    refused: str = ""
    peak: float = 1.0


def judged(
    look: Look,
    wanted: Binding,
    past: Callable[[int], Sequence[float]],
    settings: ControlSettings,
    names: Mapping[InstanceId, str],
) -> Verdict:
    """What is left of a proposal once every move has to pay, and all of them together have to lower the peak.

    A move is judged at the margin: how its target does after all moves, against how its source would if it alone were
    not made.
    """
    moves = list(look.binding.diff(wanted))
    if not moves:
        return Verdict(look.binding, refused="the policy proposes no moves", peak=look.peak)
    considered = _considered(look, wanted, moves, past, settings.model, names)
    if settings.decision == "always":
        made = tuple(_accepted(moving) for moving in considered)
        return Verdict(wanted, made, peak=look.peak)
    binding = look.binding.after(move for move, one in zip(moves, considered, strict=True) if not one.refused)
    reason = _as_a_whole(look, binding, considered, settings.least_gain)
    return Verdict(binding if not reason else look.binding, considered, reason, look.peak)


def _considered(
    look: Look,
    wanted: Binding,
    moves: Sequence[Move],
    past: Callable[[int], Sequence[float]],
    model: Model,
    names: Mapping[InstanceId, str],
) -> tuple[Moving, ...]:
    after_s = look.under(wanted)
    mean_s, there = float(after_s.mean()), scores(after_s)
    loads, place_of = look.loads, {instance: place for place, instance in enumerate(look.loads.instances)}
    history = {worker: past(worker) for worker in {int(move.target) for move in moves}}
    node_of, found = look.topology.node_of, []
    for move in moves:
        place = place_of.get(move.instance)
        rate = 0.0 if place is None else float(loads.rate_per_s[place])
        state_bytes = 0.0 if place is None else float(loads.state_bytes[place])
        target = int(move.target)
        stays_s = (0.0 if place is None else float(look.work_s[place])) + _at(after_s, int(move.source))
        stay = Place(int(move.source), mean_s / stays_s if stays_s > 0 else float(len(after_s)))
        moving_s = loads.costs.seconds(state_bytes, node_of[move.source], node_of[target])
        go = model.place(target, float(there[target]), history[target], rate, moving_s)
        refused = "" if best([stay, go]) is go else _worse(stay, go)
        found.append(
            Moving(
                str(move.instance),
                names.get(move.instance, str(move.instance)),
                stay.worker,
                target,
                round(state_bytes),
                round(stay.score, 4),
                round(go.score, 4),
                round(go.amortisation_s, 3),
                round(go.cost, 6),
                round(go.benefit, 4),
                refused,
            )
        )
    return tuple(found)


def _at(worker_s: Floats, worker: int) -> float:
    return float(worker_s[worker]) if worker < len(worker_s) else 0.0


def _worse(stay: Place, go: Place) -> str:
    if go.score <= stay.score:
        return "its worker would be no better off there"
    return f"moving costs {go.cost:.1%} of what comes within {go.amortisation_s:.3g} s, more than it gains"


def _accepted(moving: Moving) -> Moving:
    return Moving(**{**vars(moving), "refused": ""})


def _as_a_whole(look: Look, binding: Binding, considered: Sequence[Moving], least_gain: float) -> str:
    """Why the moves that pay are not made together, if so."""
    if all(moving.refused for moving in considered):
        return "no move pays"
    before, after = look.peak, peak(look.under(binding))
    if after > before - least_gain:
        return f"the busiest worker would have less by under {least_gain:.0%} of the mean"
    return ""
