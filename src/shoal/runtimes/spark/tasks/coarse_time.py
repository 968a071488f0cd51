"""Coarse time: whether the queries on a stream see no more of its event time than the pane.

A source that knows the oldest and newest time of many rows need not deliver the time of each (`CoarseTime`).
"""

from collections.abc import Iterable, Mapping
from math import gcd

import pyarrow as pa

from shoal.compiler.lane import Feed, Lane
from shoal.compiler.program import Program
from shoal.compiler.steps import Select, Step
from shoal.compiler.watermarks import partition_us
from shoal.connectors.admission import EARLIEST_US, LATEST_US
from shoal.connectors.sources.source import CoarseTime
from shoal.kernels.columns.block import arrow_schema
from shoal.model.query.expression import Column


def pane_of_time_us(program: Program, stream: str) -> int:
    """The width of the panes that are all that queries see of the event time of a stream; 0 if some see more."""
    feeds, time = program.feeds.get(stream, ()), program.inputs[stream].time
    return _common(_pane_us(lane, feed, time) for lane, feed in feeds) if feeds else 0


def coarse_time(
    program: Program, stream: str, marks: Mapping[str, int], partition: str, now_us: int
) -> CoarseTime | None:
    """How coarse the times of rows of a partition may be; None if queries see more than panes.

    `marks`: watermarks before the epoch, `now_us`: its processing time. Rows that are late, ahead of the clock or out
    of range keep their own times, which dead letters show. Not for queries with user code: it may fail, and a failure
    shows the row.
    """
    input_, pane_us = program.inputs[stream], pane_of_time_us(program, stream)
    if not pane_us:
        return None
    of_rows = partition_us(marks, stream, partition)
    late_us = max(lane.late_us(marks, of_rows) for lane, _ in program.feeds[stream])
    ahead_us = LATEST_US if input_.max_ahead_us is None else now_us + input_.max_ahead_us
    beside = pa.schema([field for field in arrow_schema(input_.schema) if field.name != input_.time])
    return CoarseTime(input_.time, pane_us, max(late_us, EARLIEST_US), min(ahead_us, LATEST_US), beside)


def _pane_us(lane: Lane, feed: Feed, time: str) -> int:
    if lane.kernel is None or not all(_keeps(step, time) for step in feed.steps):
        return 0
    return lane.kernel.pane_us(feed.port, time)


def _keeps(step: Step, time: str) -> bool:
    """Whether a step leaves a column as it is, and computes nothing from it."""
    if isinstance(step, Select):
        computed = [each for name, each in step.columns if not (name == time and isinstance(each, Column))]
        return not any(time in each.columns() for each in computed)
    return time not in step.reads()


def _common(widths: Iterable[int]) -> int:
    """The largest width of which all widths are multiples; 0 if one of them is 0."""
    found = tuple(widths)
    return gcd(*found) if all(found) else 0
