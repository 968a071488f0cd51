"""Costs of tasks: seconds of work by the number of events, results and bytes of state."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.errors import ConfigError


@dataclass(frozen=True)
class Cost:
    """Seconds of work of a task in one turn at speed 1: fixed, per event, per result and per byte of state.

    `emit_s` is what a turn costs more if it has results, however many: steps and sinks behind the task run then. The
    bytes of state are those that the turn merges with new rows, of which each costs `merged_row_s`, each event behind
    them `merged_event_s`, and each pair of rows of one instance `pair_s`. They are 0 for a turn that only collects
    rows, in which the watermark reaches the end of no window (`Kernel.due`). `rows_per_event`: new rows per event,
    where they are not counted. `looked_up_s`, `compared_s`, `begun_s` and `ended_s`: per row that is looked up in
    state, per row of state that it is compared with, and per row of state that begins or ends, where the kernel counts
    them (`Kernel.effort`); where nobody asks the kernel, an event costs `uncounted_s` more instead. `spread` is the
    standard deviation of the logarithm of measured over modelled cost. `waits`: how the fixed part varies beside other
    threads, factors that occur equally often; none if it does not. `bare_s`: the fixed part of a turn that brings only
    a watermark, if it takes turns for these. `closings`: what a turn with results costs beside, one of these values.

    >>> Cost(fixed_s=1e-4, event_s=2e-8).seconds([0, 1000], 0, 0).tolist()
    [0.0001, 0.00012]
    """

    fixed_s: float = 0.0
    event_s: float = 0.0
    result_s: float = 0.0
    state_byte_s: float = 0.0
    spread: float = 0.0
    emit_s: float = 0.0
    merged_row_s: float = 0.0
    merged_event_s: float = 0.0
    pair_s: float = 0.0
    rows_per_event: float = 0.0
    looked_up_s: float = 0.0
    compared_s: float = 0.0
    begun_s: float = 0.0
    ended_s: float = 0.0
    uncounted_s: float = 0.0
    bare_s: float = 0.0
    waits: tuple[float, ...] = ()
    closings: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Reject costs that are negative or no numbers."""
        for name, value in asdict(self).items():
            values = value if name in ("waits", "closings") else (value,)
            if not all(map(_is_amount, values)):
                raise ConfigError(f"{name} of a cost must be a number from 0 on; got {value!r}")

    def seconds(self, events: ArrayLike, results: ArrayLike, state_bytes: ArrayLike) -> NDArray[np.float64]:
        """The seconds of work of turns without counted effort, for numbers or arrays of shapes that fit each other."""
        found: NDArray[np.float64] = (
            self.fixed_s
            + (self.event_s + self.uncounted_s) * np.asarray(events, float)
            + self.result_s * np.asarray(results, float)
            + self.state_byte_s * np.asarray(state_bytes, float)
            + self.emit_s * (np.asarray(results) > 0)
        )
        return found

    @property
    def effort_s(self) -> tuple[float, ...]:
        """Seconds for each of the columns of an `Effort`."""
        return self.looked_up_s, self.compared_s, self.begun_s, self.ended_s

    def and_per_event(self, other: "Cost", *, events: float, results: float) -> "Cost":
        """This cost and that of a task behind it, of which every event of this one causes some events and results."""
        more_s = other.event_s * events + other.result_s * results
        return replace(self, fixed_s=self.fixed_s + other.fixed_s, event_s=self.event_s + more_s)

    def and_per_result(self, other: "Cost", *, events: float, results: float) -> "Cost":
        """The same where every result of this task causes events and results of the other, and a turn with some one."""
        more_s = other.event_s * events + other.result_s * results
        return replace(self, emit_s=self.emit_s + other.fixed_s, result_s=self.result_s + more_s)

    def in_turns_of(self, events: int) -> "Cost":
        """The same for a task whose turns take at most so many events, if it is given more of them at a time."""
        return replace(self, event_s=self.event_s + self.fixed_s / events)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Cost":
        """A cost from the plain data of a profile."""
        merging = ("state_byte_s", "merged_row_s", "merged_event_s", "pair_s")
        names = ("fixed_s", "event_s", "result_s", *merging, "spread")
        missing = [name for name in names if name not in data]
        if missing:
            raise ConfigError(f"cost in a profile has no {', '.join(missing)}; measure it again with shoal profile")
        return cls(**{name: data[name] for name in names})


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < float("inf")
