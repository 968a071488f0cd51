"""When the rows of a dataset are sent: bounds of blocks, each with the second in which it is due."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ConfigError
from shoal.experiments.coordination.nodes.dataset_rows import BLOCK_ROWS, DatasetRows, blocks
from shoal.experiments.language.task_table import BY_TIMESTAMPS, FAST

MILLISECONDS = 1e3
TICK_S = 0.01
"""Rows that are due within this time are sent together."""
Block = tuple[int, int, float]
"""First row, row after the last, and when they are due, in seconds after the first."""


def as_fast_as_possible(rows: int) -> Iterator[Block]:
    """Everything is due at once."""
    for first, stop in blocks(rows):
        yield first, stop, 0.0


def by_times(times_s: NDArray[np.float64]) -> Iterator[Block]:
    """Rows by their own times, which never go back.

    >>> list(by_times(np.array([0.0, 0.001, 0.5])))
    [(0, 2, 0.0), (2, 3, 0.5)]
    """
    first = 0
    while first < len(times_s):
        stop = min(int(np.searchsorted(times_s, times_s[first] + TICK_S)), first + BLOCK_ROWS)
        yield first, max(stop, first + 1), float(times_s[first])
        first = max(stop, first + 1)


def at_rate(rows: int, per_s: float) -> Iterator[Block]:
    """So many rows per second.

    >>> list(at_rate(3, 2.0))
    [(0, 1, 0.0), (1, 2, 0.5), (2, 3, 1.0)]
    """
    size = max(1, min(BLOCK_ROWS, round(per_s * TICK_S)))
    for first, stop in blocks(rows, size):
        yield first, stop, first / per_s


@dataclass(frozen=True)
class OnOff:
    """A number of rows at a rate, then nothing; that number rises from the least to the most by a step, over and over.

    >>> [(first, stop) for first, stop, _ in OnOff(1e6, 1.0, 1, 3, 1).blocks(8)]
    [(0, 1), (1, 3), (3, 6), (6, 7), (7, 8)]
    """

    per_s: float
    pause_s: float
    least: int
    most: int
    step: int

    def blocks(self, rows: int) -> Iterator[Block]:
        """The blocks of all rows."""
        first, began_s, size = 0, 0.0, self.least
        while first < rows:
            stop = min(rows, first + size)
            for begin, end, due_s in at_rate(stop - first, self.per_s):
                yield first + begin, first + end, began_s + due_s
            began_s += (stop - first) / self.per_s + self.pause_s
            first = stop
            size = size + self.step if size + self.step <= self.most else self.least


SENDS = (
    "sendDsAsStream",
    "sendDsAsConstantStream",
    "sendDsAsVariableOnOffStream",
    "sendDsAsSpecificStream",
    "sendNRowsDsAsSpecificStream",
)
"""Tasks that send datasets."""
Fast = Callable[[DatasetRows], Iterator[Block]]


def paced_rows(
    dataset: Callable[[int], DatasetRows],
    name: str,
    arguments: Sequence[Any],
    fast: Fast = lambda rows: as_fast_as_possible(rows.rows),
) -> Iterator[tuple[DatasetRows, Iterator[Block]]]:
    """What a task sends: rows with the blocks in which they are due, once for every time that it sends them.

    `fast`: the blocks of rows that are sent as fast as possible.
    """
    rows = dataset(arguments[0])
    if name == "sendDsAsConstantStream":
        yield rows, at_rate(rows.rows, arguments[1])
    elif name == "sendDsAsVariableOnOffStream":
        per_s, pause_ms, least, most, step = arguments[1:]
        if most < least:
            raise ConfigError(f"most rows of {name} must be at least {least}; got {most}")
        yield rows, OnOff(per_s, pause_ms / MILLISECONDS, least, most, step).blocks(rows.rows)
    elif name == "sendDsAsStream":
        _, times, pace = arguments
        for _ in range(times):
            if pace == BY_TIMESTAMPS:
                yield rows, by_times(rows.times_s)
            else:
                yield rows, fast(rows) if pace == FAST else at_rate(rows.rows, float(pace))
    else:
        rows = rows.of_stream(*arguments[1:])
        yield rows, fast(rows)
