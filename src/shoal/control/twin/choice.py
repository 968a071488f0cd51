"""Choices: the mechanism whose prediction costs least, and why each of the others was not chosen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoal.control.twin.prediction import Prediction, predict
from shoal.control.twin.profile import MigrationProfile
from shoal.errors import ConfigError, MechanismError
from shoal.mechanisms.catalog import MECHANISMS

TERMS = ("latency", "emission", "bytes", "loss", "time")
WORDS = {
    "latency": "events would wait longer",
    "emission": "windows would be emitted later",
    "bytes": "more bytes would be sent",
    "loss": "more state would be lost",
    "time": "it would take longer",
}


@dataclass(frozen=True)
class Objective:
    """What a migration should keep small, as weights of a sum in event-seconds.

    `latency`: of a second that one event waits. `emission`: of a second by which one result is late. `bytes`: of a
    megabyte that is sent. `loss`: the loss of all state counts as much as a delay of all events of one second by that
    many seconds. `time`: each second until the target works alone counts as this share of the events of a second.

    >>> Objective.of("latency:2,loss:0")
    Objective(latency=2.0, emission=1.0, bytes=1.0, loss=0.0, time=0.01)
    """

    latency: float = 1.0
    emission: float = 1.0
    bytes: float = 1.0
    loss: float = 600.0
    time: float = 0.01

    def __post_init__(self) -> None:
        """Reject negative weights."""
        for name in TERMS:
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} of an objective must be 0 or more and finite; got {getattr(self, name)}")

    @classmethod
    def of(cls, text: str) -> "Objective":
        """An objective from TERM:WEIGHT, several with commas; terms that are left out have their usual weight."""
        given: dict[str, float] = {}
        for part in filter(None, text.split(",")):
            name, _, weight = part.partition(":")
            if name not in TERMS:
                raise ConfigError(f"objective must weigh {', '.join(TERMS)} as TERM:WEIGHT; got {part!r}")
            try:
                given[name] = float(weight)
            except ValueError as error:
                raise ConfigError(f"weight of {name} in objective must be a number; got {weight!r}") from error
        return cls(**given)

    def terms(self, found: Prediction, rate: float) -> dict[str, float]:
        """The cost of a migration, term by term; `rate` is the number of events per second."""
        return {
            "latency": self.latency * found.latency_s,
            "emission": self.emission * found.emission_s,
            "bytes": self.bytes * found.sent_bytes / 1e6,
            "loss": self.loss * found.lost * rate,
            "time": self.time * found.seconds * rate,
        }

    def cost(self, found: Prediction, rate: float) -> float:
        """The cost of a migration in event-seconds."""
        return sum(self.terms(found, rate).values())


@dataclass(frozen=True)
class Ranked:
    """A mechanism with what it is expected to cost; `refused` says why it was not chosen, empty for the chosen one.

    `prediction` is None if the mechanism cannot move this state at all.
    """

    mechanism: str
    cost: float
    prediction: Prediction | None
    refused: str = ""


def choose(
    profile: MigrationProfile, objective: Objective | None = None, among: Sequence[str] = tuple(MECHANISMS)
) -> tuple[Ranked, ...]:
    """All mechanisms of `among`, the cheapest first; impossible ones are last. Of equals the first of `among` wins."""
    return choose_for([profile], objective or Objective(), among)


def choose_for(profiles: Sequence[MigrationProfile], objective: Objective, among: Sequence[str]) -> tuple[Ranked, ...]:
    """The same for several migrations by one mechanism: of instances of different operators, or over several links."""
    found, impossible = list[tuple[float, int, Prediction]](), list[Ranked]()
    profiles = [each.sampled() for each in profiles]
    rate = sum(each.rate for each in profiles)
    for place, name in enumerate(among):
        try:
            prediction = combined([predict(each, name) for each in profiles], [each.rate for each in profiles])
        except MechanismError as error:
            impossible.append(Ranked(name, float("inf"), None, str(error)))
        else:
            found.append((objective.cost(prediction, rate), place, prediction))
    found.sort(key=lambda each: each[:2])
    if not found:
        raise MechanismError(f"no mechanism of {', '.join(among) or 'none'} can move this state")
    return (*_ranked(found, objective, rate), *impossible)


def combined(found: Sequence[Prediction], rates: Sequence[float]) -> Prediction:
    """Several predictions of one mechanism as one: waits and bytes add up, times are the longest."""
    if len(found) == 1:
        return found[0]
    lost = sum(each.lost * rate for each, rate in zip(found, rates, strict=True))
    return Prediction(
        found[0].mechanism,
        frozen_s=max(each.frozen_s for each in found),
        latency_s=sum(each.latency_s for each in found),
        longest_s=max(each.longest_s for each in found),
        emission_s=sum(each.emission_s for each in found),
        late_results=sum(each.late_results for each in found),
        seconds=max(each.seconds for each in found),
        sent_bytes=sum(each.sent_bytes for each in found),
        lost=lost / sum(rates) if sum(rates) > 0 else 0.0,
    )


def _ranked(found: Sequence[tuple[float, int, Prediction]], objective: Objective, rate: float) -> Iterator[Ranked]:
    best = objective.terms(found[0][2], rate)
    for number, (cost, _, prediction) in enumerate(found):
        refused = _worse(objective.terms(prediction, rate), best) if number else ""
        yield Ranked(prediction.mechanism, cost, prediction, refused)


def _worse(terms: dict[str, float], best: dict[str, float]) -> str:
    """What makes a mechanism worse than the best: the term with the largest difference."""
    name = max(TERMS, key=lambda each: terms[each] - best[each])
    return WORDS[name] if terms[name] > best[name] else "it is no better"
