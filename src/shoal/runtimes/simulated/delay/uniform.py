"""The delay model `uniform`: every event of an operator takes the same time, whatever state the operator has.

The times are processor times per event of operators that run separately, medians over the workloads `traffic`, `ysb`,
`nexmark`, `linear-road`, `nyt` and `skew`, as `shoal profile` measured them on two virtual cores of a cloud server.
They are orders of magnitude for a machine that nobody has measured. For a machine that you have, use `traced`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.compiler.steps import Step
from shoal.errors import ConfigError, did_you_mean
from shoal.model.query.graph import Operator, OperatorId
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.delay.traced import measured_selectivity

NS = 1e-9
EVENT_S: Mapping[str, float] = {
    "source": 30 * NS,
    "filter": 10 * NS,
    "select": 20 * NS,
    "lookup": 20 * NS,
    "group": 20 * NS,
    "assign": 50 * NS,
    "retime": 50 * NS,
    "aggregate": 20 * NS,
    "join": 210 * NS,
    "rank": 250 * NS,
    "deduplicate": 250 * NS,
    "match": 5900 * NS,
    "cover": 20 * NS,
    "versions": 250 * NS,
    "geofence": 250 * NS,
    "match_ranges": 500 * NS,
    "sink": 60 * NS,
}
"""Seconds per event, by kind of operator; `lookup` is taken as `group`, and `deduplicate` as `rank`."""
KIND_OF_STEP = {"attach": "lookup", "dispatch": "group", "groups": "group", "cells": "group", "origin": "group"}
"""The kinds of steps whose texts begin with another word."""


@dataclass(frozen=True)
class Uniform:
    """A constant per event and kind of operator; no cost of a turn, no selectivity of its own."""

    program: Program
    profile: Mapping[str, Any] | None = None
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reject weights of unknown kinds."""
        for kind in self.weights:
            if kind not in self.defaults:
                hint = did_you_mean(kind, self.defaults) or f"; there are {', '.join(self.defaults)}"
                raise ConfigError(f"delay model has no weight {kind!r}{hint}")

    @property
    def defaults(self) -> Mapping[str, float]:
        """The weights that are not given."""
        return EVENT_S

    def weight(self, kind: str) -> float:
        """The seconds of a kind of operator."""
        return self.weights.get(kind, self.defaults[kind])

    def stream(self, stream: str) -> Cost:
        """The source and every step behind it, each once; results that pass no lane with state are emitted too."""
        if stream not in self.program.inputs:
            raise ConfigError(f"stream must be one of {', '.join(self.program.inputs)}; got {stream!r}")
        steps, sinks = set[tuple[str, ...]](), 0
        for lane, feed in self.program.feeds.get(stream, ()):
            steps |= _prefixes(feed.steps)
            sinks += len(lane.outlets) if lane.kernel is None else 0
        work_s = sum(self.weight(kind_of_step(texts[-1])) for texts in steps)
        return Cost(event_s=self.weight("source") + work_s + sinks * self.weight("sink"))

    def lane(self, lane: Lane) -> Cost:
        """The operator with state, and the steps and sinks behind it for every result."""
        if lane.kernel is None:
            return Cost()
        steps = set[tuple[str, ...]]()
        for _, feed in self.program.feeds.get(lane.number, ()):
            steps |= _prefixes(feed.steps)
        behind_s = sum(self.weight(kind_of_step(texts[-1])) for texts in steps)
        own = self._own(operator_of(self.program, lane))
        return replace(own, result_s=own.result_s + behind_s + len(lane.outlets) * self.weight("sink"))

    def _own(self, operator: Operator) -> Cost:
        return Cost(event_s=self.weight(operator.kind))

    def nodes(self, *, divided: bool = False) -> list[Mapping[str, Any]] | None:  # noqa: ARG002
        """None: nothing was measured."""
        return None

    def feed(self, stream: str, lane: Lane) -> Cost:  # noqa: ARG002  (the same for all)
        """Nothing: steps are part of the stream."""
        return Cost()

    def selectivity(self, lane: Lane) -> float:
        """Results per event; only a profile knows it."""
        return measured_selectivity(self.profile, lane)


def kind_of_step(text: str) -> str:
    """The kind of a step, from its text."""
    word = text.partition(" ")[0]
    return KIND_OF_STEP.get(word, word)


def operator_of(program: Program, lane: Lane) -> Operator:
    """The operator of a lane; those of all its instances have the same shape."""
    return program.graph.operators[OperatorId(str(lane.instances[0]).partition("/")[0])]


def _prefixes(steps: Sequence[Step]) -> set[tuple[str, ...]]:
    """Every step as the texts up to it, so that steps that feeds have in common are the same."""
    texts = tuple(step.text for step in steps)
    return {texts[:length] for length in range(1, len(texts) + 1)}
