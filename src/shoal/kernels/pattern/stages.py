"""How far partial matches have come: the stage that a match beginning at each row has reached.

A stage is an element of the pattern that takes rows, up to the last one that must take some: a match that has reached
it is complete. How many rows an element needs is not considered, nor are negated elements: stages are what utilities
are estimated from, matches are found by `search`.
"""

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.table import Ints
from shoal.kernels.compiled import compiled
from shoal.kernels.pattern.search import SearchProgram

NEVER_US = 1 << 62


def stages_of(program: SearchProgram) -> int:
    """The number of stages of a pattern: its elements up to the last one that must take a row."""
    return int(np.flatnonzero(program.least > 0)[-1]) + 1


def stages_reached(program: SearchProgram, begin: Ints, times: Ints, fits: Ints, within_us: int) -> Ints:
    """The stage, counted from 0, that a match reaches that begins at each row; -1 where none can begin.

    Rows are sorted by group and time; `begin` holds where each group begins, and the end.
    """
    stages = stages_of(program)
    reached = np.full(times.size, -1, np.int64)
    elements = (program.variables[:stages], program.most[:stages], program.onward)
    _reach(elements, program.strict, begin, (times, fits), within_us, reached)
    return reached


@compiled
def _reach(  # type: ignore[no-untyped-def]
    elements, strict, begin, rows, within_us, reached
):
    """Go back row by row, with the earliest time of every stage if an element takes this row or a later one."""
    variables, most, onward = elements
    times, fits = rows
    stages = variables.size
    earliest = np.empty((stages, stages), np.int64)
    with_row = np.empty((stages, stages), np.int64)
    for group in range(begin.size - 1):
        earliest[:] = NEVER_US
        for row in range(begin[group + 1] - 1, begin[group] - 1, -1):
            with_row[:] = NEVER_US
            for element in range(stages):
                if fits[row] & variables[element] != 0:
                    _take(element, most[element] > 1, onward, earliest, with_row)
                    with_row[element, element] = times[row]
            for i in range(onward.shape[1]):
                first = onward[0, i]
                if first < 0 or first >= stages:  # no option, or an end without rows
                    continue
                for stage in range(stages):
                    if with_row[first, stage] <= times[row] + within_us:
                        reached[row] = max(reached[row], stage)
            for element in range(stages):
                for stage in range(stages):
                    before = NEVER_US if strict else earliest[element, stage]
                    earliest[element, stage] = min(before, with_row[element, stage])


@compiled
def _take(element, again, onward, earliest, with_row):  # type: ignore[no-untyped-def]
    """The times of stages after an element has taken a row: it takes another one, or a later element does."""
    stages = with_row.shape[0]
    for i in range(-1, onward.shape[1]):
        following = element if i < 0 else onward[element + 1, i]
        if following < 0 or following >= stages or (i < 0 and not again):
            continue
        for stage in range(stages):
            with_row[element, stage] = min(with_row[element, stage], earliest[following, stage])


def least_reached(reached: NDArray[np.int64], stages: int) -> Ints:
    """How many partial matches got at least as far as each stage."""
    counts = np.bincount(reached[reached >= 0], minlength=stages)
    return np.cumsum(counts[::-1])[::-1].astype(np.int64)
