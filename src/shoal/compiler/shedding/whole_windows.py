"""Whole windows: results of windows that lack rows, because others' windows were shed, are not emitted."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.kernels.columns.block import Block
from shoal.language.python.flow import WINDOW_END
from shoal.model.control.partitioning import operator_of
from shoal.model.control.shed_hashes import spans_shed
from shoal.model.control.shedding import ShedRange, StreamShedding
from shoal.model.query.window import Window, window_from_data


def shed_by_windows(shedding: Mapping[str, StreamShedding]) -> dict[str, StreamShedding]:
    """The streams of which whole windows were shed; only results that they feed need a check."""
    return {stream: each for stream, each in shedding.items() if any(shed.rule.span_us for shed in each.ranges)}


def whole_windows(program: Program, lane: Lane, results: Block, shedding: Mapping[str, StreamShedding]) -> Block:
    """The results of a lane whose windows have all of their rows.

    1. Rows of a time that was shed are gone, all of them. Such times begin and end at multiples of their length.
    2. A window lacks rows if it has a part in one of them. Every one that it can have a part in is known, since ranges
       begin after all rows that were read before.
    """
    ranges = [each for stream in lane.streams & shedding.keys() for each in shedding[stream].ranges]
    by_windows = [each for each in ranges if each.rule.span_us]
    if not by_windows or not results.length or WINDOW_END not in results.columns:
        return results
    size_us = _size_us(program, lane)
    ends, places = np.unique(results.columns[WINDOW_END], return_inverse=True)
    lacking = np.zeros(len(ends), bool)
    for each in by_windows:
        lacking |= _overlapping(each, ends, size_us)
    return results.where(~lacking[places])


def _overlapping(shed: ShedRange, ends: NDArray[np.int64], size_us: int) -> NDArray[np.bool_]:
    """Whether windows that end at some times have a part in one that was shed in a range."""
    span_us = shed.rule.span_us
    first, last = (ends - size_us) // span_us, (ends - 1) // span_us
    found = np.zeros(len(ends), bool)
    for further in range(int((last - first).max()) + 1):
        spans = np.minimum(first + further, last)
        inside = (spans * span_us >= shed.start_us) & (spans * span_us < shed.end_us)
        found |= inside & spans_shed(shed.rule, spans)
    return found


def _size_us(program: Program, lane: Lane) -> int:
    """The length of a lane's windows; all of its operators have the same."""
    operators = program.graph.operators
    operator = operators[operator_of(lane.instances[0])]
    window = window_from_data(operators[operator.inputs[0]].parameters)
    return window.size_us if isinstance(window, Window) else 0
