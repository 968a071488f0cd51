"""The delay model `state-dependent`: the time of an event grows with the state that it touches.

The model of the thesis on DCEP-Sim 2.0 (chapter 4): a weight per event for select, filter and group by (4.1 to 4.3),
per match for an equi-join (4.5), per window that an event lies in for an aggregate (4.6), and per condition of the
pattern for a match (4.7, with one sequence per event). It describes an engine that updates every window of an event.
Shoal's own aggregates keep panes, so that hop windows cost it less; `traced` shows that.

Points that are matched with ranges cost by the ranges that they are compared with and by those that contain them.

The weights are measured as those of `uniform`: an aggregate over windows that do not overlap, a join per result, a
pattern of three conditions divided by three. Those of ranges are from `experiments/spatial.yaml`, delay-costs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from shoal.model.query.graph import Operator
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.delay.uniform import EVENT_S, NS, Uniform

WEIGHT_S: Mapping[str, float] = {
    **EVENT_S,
    "aggregate": 10 * NS,
    "join": 440 * NS,
    "match": 2000 * NS,
    "match_ranges": 130 * NS,
    "met range": 1 * NS,
    "matched range": 55 * NS,
    "new range": 450 * NS,
    "ended range": 500 * NS,
}
"""Seconds per event; per match of a join, per window of an aggregate, per condition of a pattern.

Of `match_ranges`, per point, per range that a point is compared with or that contains it, and per range that begins or
ends, for each cell that it overlaps.
"""


@dataclass(frozen=True)
class StateDependent(Uniform):
    """Weights that the state of an operator multiplies."""

    @property
    def defaults(self) -> Mapping[str, float]:
        """The weights that are not given."""
        return WEIGHT_S

    def _own(self, operator: Operator) -> Cost:
        weight_s = self.weight(operator.kind)
        if operator.kind == "join":
            return Cost(result_s=weight_s)
        if operator.kind == "aggregate":
            return Cost(event_s=weight_s * self._windows(operator))
        if operator.kind == "match":
            return Cost(event_s=weight_s * max(1, len(operator.parameters["define"])))
        if operator.kind == "match_ranges":
            return self._ranges(weight_s)
        return Cost(event_s=weight_s)

    def _ranges(self, point_s: float) -> Cost:
        """Points, ranges nearby, matches and changes; where these are not counted, events cost as in `uniform`."""
        parts = ("matched range", "met range", "new range", "ended range")
        matched_s, met_s, new_s, ended_s = map(self.weight, parts)
        return Cost(
            result_s=matched_s,
            looked_up_s=point_s,
            compared_s=met_s,
            begun_s=new_s,
            ended_s=ended_s,
            uncounted_s=EVENT_S["match_ranges"],
        )

    def _windows(self, operator: Operator) -> float:
        """The windows that an event lies in: size over slide, of times or rows; 1 for sessions."""
        for name in operator.inputs:
            upstream = self.program.graph.operators[name]
            if upstream.kind == "window":
                window = upstream.parameters
                if "size_us" in window and "slide_us" in window:
                    return float(window["size_us"] / window["slide_us"])
                if "rows" in window:
                    return float(window["rows"] / max(1, window.get("jump") or window["rows"]))
        return 1.0
