"""Delay models by name."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.errors import ConfigError, did_you_mean
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.delay.measured_contention import Contention
from shoal.runtimes.simulated.delay.state_dependent import StateDependent
from shoal.runtimes.simulated.delay.traced import Traced, nodes_of
from shoal.runtimes.simulated.delay.uniform import Uniform
from shoal.runtimes.simulated.machine.quantity import seconds

DELAY_MODELS = ("uniform", "state-dependent", "traced")


class DelayModel(Protocol):
    """What the parts of a program cost."""

    def stream(self, stream: str) -> Cost:
        """The cost of a stream: its source and all steps without state behind it, up to the lanes.

        Per event of the stream. Results of queries without state are emitted there too. All but the source and what
        several lanes share is the cost of feeds and of lanes without state instead, for a model that has `feed`.
        """

    def lane(self, lane: Lane) -> Cost:
        """The cost of a lane, and per result of the steps and sinks behind it; nothing for a lane without state."""

    def feed(self, stream: str, lane: Lane) -> Cost:
        """The cost of the steps from a stream to a lane with state, per event of the stream."""

    def nodes(self, *, divided: bool = False) -> Sequence[Mapping[str, Any]] | None:
        """The nodes of the profile, for a model that has one; `divided`: with lanes divided by worker."""

    def selectivity(self, lane: Lane) -> float:
        """Results per event of a lane; raises an error without a profile."""


def delay_model(
    name: str,
    program: Program,
    profile: Mapping[str, Any] | None = None,
    weights: Mapping[str, float] | None = None,
    *,
    divided: bool = False,
    slowed: Contention | None = None,
) -> DelayModel:
    """The delay model with this name.

    `profile` is what `shoal profile` has written; `traced` takes its costs from it, the others only selectivities.
    `weights` replace the seconds per kind of operator of the others. `divided`: the costs of `traced` are those of a
    run that binds instances, if the profile has one. `slowed`: how workers of that run slow each other down.
    """
    if name not in DELAY_MODELS:
        hint = did_you_mean(name, DELAY_MODELS)
        raise ConfigError(f"delay model must be one of {', '.join(DELAY_MODELS)}; got {name!r}{hint}")
    if name == "traced":
        if weights:
            raise ConfigError("delay model traced takes its costs from a profile; leave the weights out")
        nodes_of(profile)
        return Traced(program, profile or {}, divided and "divided" in (profile or {}), slowed)
    made = Uniform if name == "uniform" else StateDependent
    return made(program, profile, weights or {})


def weights_of(text: str) -> Mapping[str, float]:
    """Seconds per kind of operator from a text such as `join=10us,select=1us`; empty for none.

    >>> weights_of("join=10us, select=0.5us")
    {'join': 1e-05, 'select': 5e-07}
    """
    found = dict[str, float]()
    for part in filter(None, map(str.strip, text.split(","))):
        kind, given, value = part.partition("=")
        if not given or kind.strip() in found:
            raise ConfigError(f"weights must be KIND=TIME, each kind once, such as join=10us,select=1us; got {part!r}")
        found[kind.strip()] = seconds(value.strip(), f"weight {kind.strip()!r}")
        if not 0 <= found[kind.strip()] < float("inf"):
            raise ConfigError(f"weight {kind.strip()!r} must be 0 or more; got {value.strip()}")
    return found
