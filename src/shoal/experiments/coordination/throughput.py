"""Throughput of sets: how many rows a node has processed per second, each time a dataset was sent.

A set begins with the first rows that are received at a node, or the first after the mark that the set before is done.
Its throughput is the rows received, by the time from the first of them to when the last was received or everything was
processed. Sets before the mark that the warm-up has ended do not count; without such a mark the first half is the
warm-up, as in the original experiments, where five of ten iterations were.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from shoal.experiments.coordination.nodes.node_trace import FINISHED, RECEIVED, SET_DONE, STARTED, TraceRecord

NANOSECONDS = 1e9


@dataclass(frozen=True)
class SetThroughput:
    """One set at one node."""

    rows: int
    began_ns: int
    ended_ns: int

    @property
    def rows_per_s(self) -> float:
        """Rows per second; a set that took no time that can be measured counts as one nanosecond."""
        return self.rows * NANOSECONDS / max(1, self.ended_ns - self.began_ns)


def sets_of(records: Sequence[TraceRecord]) -> tuple[list[SetThroughput], int | None]:
    """The sets of a node in order, and the number of those before the end of the warm-up, if that was marked.

    >>> one = [TraceRecord(1, 0, 500_000_000, ("Bid",), 10), TraceRecord(100, 1_000_000_000, 1_000_000_000)]
    >>> [each.rows_per_s for each in sets_of(one)[0]]
    [10.0]
    """
    found: list[SetThroughput] = []
    warm_up: int | None = None
    closed = True
    for record in records:
        if record.point == SET_DONE:
            closed = True
        elif record.point == STARTED:
            warm_up = len(found)
        elif record.point == RECEIVED:
            if closed:
                found.append(SetThroughput(0, record.at_ns, record.until_ns))
                closed = False
            last = found[-1]
            found[-1] = SetThroughput(
                last.rows + (record.rows or 0), last.began_ns, max(last.ended_ns, record.until_ns)
            )
        elif record.point == FINISHED and found:
            last = found[-1]
            found[-1] = SetThroughput(last.rows, last.began_ns, max(last.ended_ns, record.at_ns))
    return found, warm_up


def measured_sets(records: Sequence[TraceRecord]) -> list[SetThroughput]:
    """The sets that count."""
    found, warm_up = sets_of(records)
    first = len(found) // 2 if warm_up is None else warm_up
    return found[first:] or found[-1:]


def relative_deviation(values: Sequence[float]) -> float:
    """The sample standard deviation in percent of the mean; 0 for a single value.

    >>> relative_deviation([90, 110])
    14.142135623730951
    """
    if len(values) < 2:
        return 0.0
    mean = fmean(values)
    return 100 * stdev(values) / mean if mean and math.isfinite(mean) else 0.0


def throughput_metrics(traces: Mapping[int, Sequence[TraceRecord]], subject: int | None) -> dict[str, float]:
    """Throughput of nodes with marked sets, and of `subject`, which the experiment is about; rows of the others."""
    metrics: dict[str, float] = {}
    for node, records in sorted(traces.items()):
        sets = measured_sets(records)
        if not sets:
            continue
        if node != subject and not any(record.point == SET_DONE for record in records):
            metrics[f"node{node}.received"] = float(sum(each.rows for each in sets))
            continue
        rates = [each.rows_per_s for each in sets]
        values = {
            "tps": fmean(rates),
            "rsd": relative_deviation(rates),
            "sets": float(len(sets)),
            "received": float(sum(each.rows for each in sets_of(records)[0])),
        }
        if node == subject:
            metrics = {**values, **metrics}
        metrics |= {f"node{node}.{name}": value for name, value in values.items()}
    return metrics
