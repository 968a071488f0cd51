"""Settings of the controller, named as on the command line."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from shoal.control.decision import Model
from shoal.control.forecast import forecast_of
from shoal.control.host_departure import leaving_of
from shoal.control.trigger import triggers_of
from shoal.control.twin.choice import Objective
from shoal.errors import ConfigError, did_you_mean
from shoal.policies.binding.deadline_aware import NAME as DEADLINE_AWARE
from shoal.policies.partitioning.splitting import Splitting
from shoal.policies.partitioning.swarm.decision_stages import BETA
from shoal.policies.partitioning.swarm.rounds import MERGE_ROUNDS, REBALANCE, Swarm
from shoal.policies.scaling import Utilisation

DECISIONS = {
    "benefit": "a move is made if its target is better by more than the move costs, and all of them lower the peak",
    "always": "every proposal is carried out, as in the studies",
}

COSTS = {
    "product": "points x ranges x the share of all that was received, as in the study",
    "measured": "the time of workers that it took",
}

DEPARTURES = {
    "ahead": "instances leave a host in time if an outage is announced or its battery will be empty",
    "wait": "instances leave a host once it is lost",
}


@dataclass(frozen=True)
class Deadlines:
    """Seconds for some queries by name, and for all others if `others_s` is given.

    >>> deadlines_of("tolls:20,50").of(["tolls", "speeds"])
    {'tolls': 0.02, 'speeds': 0.05}
    """

    named: Mapping[str, float] = field(default_factory=dict)
    others_s: float | None = None

    def of(self, queries: Collection[str]) -> dict[str, float]:
        """The deadline of every query that has one."""
        found = {query: self.named.get(query, self.others_s) for query in queries}
        return {query: deadline_s for query, deadline_s in found.items() if deadline_s is not None}

    def check(self, policy: str, queries: Collection[str]) -> None:
        """Reject deadlines of queries that do not exist, and those that the policy would ignore or lacks."""
        given = bool(self.named) or self.others_s is not None
        if given and policy != DEADLINE_AWARE:
            raise ConfigError(f"deadline_ms is for policy {DEADLINE_AWARE}; got policy {policy}")
        if not given and policy == DEADLINE_AWARE:
            raise ConfigError(f"policy {DEADLINE_AWARE} needs deadlines; add deadline_ms, e.g. deadline_ms=50")
        self.check_names(queries)

    def check_names(self, queries: Collection[str]) -> None:
        """Reject deadlines of queries that do not exist."""
        for name in self.named:
            if name not in queries:
                raise ConfigError(
                    f"deadline_ms must name queries of the job; got {name!r}{did_you_mean(name, queries)}"
                )


def deadlines_of(text: str) -> Deadlines:
    """Deadlines in milliseconds: QUERY:MS for some queries, a number for all others, several with commas."""
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.rpartition(":")
        try:
            found[name] = float(value) / 1000
        except ValueError:
            found[name] = 0.0
        if not 0 < found[name] < float("inf"):
            raise ConfigError(f"deadline_ms must be a number above 0, or QUERY:MS, several with commas; got {part!r}")
    return Deadlines({name: each for name, each in found.items() if name}, found.get(""))


@dataclass(frozen=True)
class ControlSettings:
    """When the policy is asked, and what a proposal must achieve to be carried out.

    >>> ControlSettings.of({"trigger": "latency:0.05", "window_s": "2"}).window_s
    2.0
    """

    trigger: str = ""
    """When the policy is asked: latency:SECONDS, imbalance:RATIO, periodic:SECONDS; empty: what is usual for it."""
    window_s: float = 1.0
    """Length of an observation, in whole epochs."""
    horizon_s: float = 10.0
    """Work is balanced over this time ahead."""
    forecast: str = "none"
    """Rates until the horizon: none (as now), trend, or season:SECONDS."""
    decision: str = "benefit"
    least_gain: float = 0.05
    """Moves must lower the busiest worker by this share of the mean."""
    full: float = 0.9
    """Workers that share a queue and are busy for more than this share of their time gain nothing by moves."""
    weight: float = 1.0
    """Weight of an output that a move delays."""
    least_s: float = 1.0
    most_s: float = 60.0
    """Bounds of the time within which a move must pay off; it is longer for steadier targets."""
    rest_s: float = 1.0
    """Pause after a decision; doubled each time one keeps less than a quarter of its promise."""
    most_rest_s: float = 60.0
    profile_s: float = 5.0
    """Policies that decide once do so after this time."""
    scale: str = ""
    """Bounds of the number of workers as LEAST:MOST; empty: the number stays."""
    low: float = Utilisation.low
    high: float = Utilisation.high
    """Bounds of utilisation, the share of their time that workers are busy."""
    split: float = Splitting.over
    """The policy guarded splits instances with more than this many shares of a worker; 0: none."""
    round_s: float = 15.0
    """The policy swarm decides after rounds of this length, in whole epochs."""
    beta: int = BETA
    """The policy swarm takes the same decision this many times in a row at most."""
    merge_rounds: int = MERGE_ROUNDS
    """The policy swarm merges partitions of one worker that form a rectangle after this many rounds."""
    cost: str = "product"
    """What a rectangle costs the policies swarm and history-grid: product, as in the study, or measured."""
    rebalance: str = "stages"
    """When the policy swarm rebalances: by stages, as in the study, or whenever workers are uneven."""
    reductions: int = 1
    """The policy swarm makes at most this many moves and splits after a round; in the study it makes one."""
    patience: int = 3
    """Observations in a row that must agree before the number of workers changes."""
    deadline_ms: str = ""
    """Latencies for the policy deadline-aware: one for all queries, QUERY:MS for some of them, several with commas."""
    departures: str = "ahead"
    """Whether instances leave hosts that are expected to go: ahead, or not before they are lost."""
    objective: str = ""
    """What the twin keeps small when it chooses a mechanism: TERM:WEIGHT, several with commas; see `Objective`."""
    leave: str = ""
    """Hosts that are to be free by a time of the run, as HOST@SECONDS, several with commas."""

    def __post_init__(self) -> None:
        """Reject values that make no sense."""
        if self.trigger:
            triggers_of(self.trigger)
        deadlines_of(self.deadline_ms)
        forecast_of(self.forecast)
        leaving_of(self.leave)
        _ = self.weights
        _ = self.model, self.scaling, self.splitting, self.swarm
        for name, choices in (
            ("decision", DECISIONS),
            ("cost", COSTS),
            ("departures", DEPARTURES),
            ("rebalance", REBALANCE),
        ):
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} must be one of {', '.join(choices)}; got {getattr(self, name)!r}")
        for name in ("window_s", "horizon_s", "full", "rest_s", "profile_s", "round_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be more than 0; got {getattr(self, name)}")
        if self.most_rest_s < self.rest_s:
            raise ConfigError(f"most_rest_s must be at least rest_s, {self.rest_s}; got {self.most_rest_s}")
        if self.patience < 1:
            raise ConfigError(f"patience must be at least 1; got {self.patience}")

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that are not the usual ones."""
        return {name: value for name, value in vars(self).items() if value != getattr(ControlSettings, name)}

    @property
    def model(self) -> Model:
        """The decision model."""
        return Model(self.weight, self.least_s, self.most_s)

    @property
    def weights(self) -> Objective:
        """The weights of the objective."""
        return Objective.of(self.objective)

    @property
    def splitting(self) -> Splitting | None:
        """When instances are split and merged; None if never."""
        return Splitting(self.horizon_s, over=self.split) if self.split else None

    @property
    def swarm(self) -> Swarm:
        """The policy swarm."""
        return Swarm(self.beta, self.merge_rounds, self.rebalance, self.reductions)

    @property
    def scaling(self) -> Utilisation | None:
        """When workers are added and removed; None if never."""
        if not self.scale:
            return None
        bounds = Utilisation.of(self.scale)
        return Utilisation(bounds.least, bounds.most, self.low, self.high)

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ControlSettings":
        """Settings from texts."""
        known = {each.name: each.type for each in fields(cls)}
        for name in given:
            if name not in known:
                near = did_you_mean(name, known)
                raise ConfigError(f"control has no setting {name!r}; there are {', '.join(known)}{near}")
        return cls(**{name: _value(name, text, known[name]) for name, text in given.items()})


def _value(name: str, text: str, type_: Any) -> Any:
    if type_ is str:
        return text
    try:
        return type_(text)
    except ValueError as error:
        kind = "a whole number" if type_ is int else "a number"
        raise ConfigError(f"{name} must be {kind}; got {text!r}") from error
