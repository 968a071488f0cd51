"""Paths: how events come from streams to instances, and where the results of queries come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Paths:
    """Inlets, through which the events of streams reach places, and the places with the results of each query.

    Inlet k brings `inlet_bytes[k]` of stream `streams[inlet_stream[k]]` to place `inlet_place[k]` in the time of an
    observation. `ends`: the places that emit the results of each query. `deadline_s`: the latency that a query may
    have; queries without one may have any.
    """

    streams: tuple[str, ...] = ()
    inlet_stream: Ints = field(default_factory=_none)
    inlet_place: Ints = field(default_factory=_none)
    inlet_bytes: Floats = field(default_factory=lambda: np.empty(0, np.float64))
    ends: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    deadline_s: Mapping[str, float] = field(default_factory=dict)

    def part(self, number: Ints) -> "Paths":
        """The paths to some places; `number`: what each place is called then, below 0 if it is left out."""
        kept = number[self.inlet_place] >= 0
        numbers = {query: number[list(several)].tolist() for query, several in self.ends.items()}
        ends = {query: tuple(end for end in several if end >= 0) for query, several in numbers.items()}
        return replace(
            self,
            inlet_stream=self.inlet_stream[kept],
            inlet_place=number[self.inlet_place[kept]],
            inlet_bytes=self.inlet_bytes[kept],
            ends={query: several for query, several in ends.items() if several},
        )
