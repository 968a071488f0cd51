"""Estimates from sampled input: Horvitz-Thompson for counts and sums, a ratio for means, with 95 % intervals.

Every row was kept with the same probability, independently of the others: 1 less the `share` that was shed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.model.control.shedding import BEGINNING_US, END_US, StreamShedding, sampled
from shoal.session.shedding.bounds import WINDOW_END, ColumnBound, QueryBounds

Z = 1.959963984540054
"""Standard deviations of a normal distribution to both sides of its mean that hold 95 % of it."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates of one result column, and the ends of their intervals; NaN where there is none."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Shares:
    """The least and the largest share of its input that was shed for every result; NaN where that is not known."""

    least: Floats
    most: Floats

    @classmethod
    def of(cls, table: pa.Table, query: QueryBounds, shedding: Mapping[str, StreamShedding]) -> "Shares":
        """The shares of a query's results, by the windows that they are of."""
        ranges = [shedding[stream].ranges for stream in query.streams if stream in shedding]
        if not any(ranges):
            return cls(np.zeros(table.num_rows), np.zeros(table.num_rows))
        if query.placed:
            ends = table.column(WINDOW_END).cast(pa.int64()).to_numpy()
            known, places = np.unique(ends, return_inverse=True)
            spans = [(end - query.size_us, end) for end in known.tolist()]
        else:
            places, spans = np.zeros(table.num_rows, np.int64), [(BEGINNING_US // 2, END_US // 2)]
        found = [_extremes([sampled(each, *span) for each in ranges]) for span in spans]
        columns = np.array(found, np.float64).reshape(-1, 2)[places]
        return cls(columns[:, 0], columns[:, 1])

    @property
    def one(self) -> Floats:
        """The share, where it is one for all input of a result; else NaN."""
        return np.where(self.least == self.most, self.least, np.nan)


def _extremes(found: list[tuple[float, float] | None]) -> tuple[float, float]:
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return float("nan"), float("nan")
    return min(least for least, _ in known), max(most for _, most in known)


def estimate(table: pa.Table, bound: ColumnBound, shares: Shares) -> Estimate:
    """The estimates of a column; where nothing was shed, exactly what it says.

    A count of which only some input was sampled has bounds and no estimate: it is at least what it says, and at most
    what it would be if all of its input had been sampled.
    """
    raw, share = _numbers(table, bound.column), shares.one
    if bound.kind == "count":
        whole, part = estimated_count(raw, share), estimated_count(raw, shares.most)
        mixed = np.isnan(share) & ~np.isnan(shares.most)
        made = Estimate(whole.value, np.where(mixed, raw, whole.low), np.where(mixed, part.high, whole.high))
    else:
        spread = _numbers(table, bound.spread)
        rows, variance = _numbers(table, bound.rows), spread**2 if bound.deviation else spread
        made = (estimated_sum if bound.kind == "sum" else estimated_mean)(raw, rows, variance, share)
    exact = share == 0
    return Estimate(*(np.where(exact, raw, each) for each in (made.value, made.low, made.high)))


def estimated_count(count: Floats, share: Floats) -> Estimate:
    """The number of rows, by how many of them are in the sample.

    The interval holds the numbers of which so many are within 1.96 standard deviations (Wilson's score interval); it
    is right for small counts, too.

    >>> made = estimated_count(np.array([80.0]), np.array([0.2]))
    >>> [each.round(1).tolist() for each in (made.value, made.low, made.high)]
    [[100.0], [90.7], [110.3]]
    """
    kept = 1 - share
    middle = count + Z**2 * share / 2
    width = Z * np.sqrt(share * (count + Z**2 * share / 4))
    return Estimate(count / kept, np.maximum(count, (middle - width) / kept), (middle + width) / kept)


def estimated_sum(total: Floats, rows: Floats, variance: Floats, share: Floats) -> Estimate:
    """The sum of all values, by the sum, the number and the variance of those in the sample."""
    kept = 1 - share
    squares = np.maximum(rows - 1, 0) * variance + np.divide(total**2, rows, out=np.zeros_like(total), where=rows > 0)
    return _around(total / kept, _deviations(rows) * np.sqrt(share * squares) / kept)


def estimated_mean(mean: Floats, rows: Floats, variance: Floats, share: Floats) -> Estimate:
    """The mean of all values, by those in the sample: the ratio of an estimated sum to an estimated number."""
    spread = np.sqrt(share * np.maximum(rows - 1, 0) * variance)
    return _around(mean, _deviations(rows) * spread / np.maximum(rows, 1))


def _deviations(rows: Floats) -> Floats:
    """Standard deviations to both sides that hold 95 %, if they are estimated from some rows; NaN for fewer than two.

    Those of Student's distribution, by the first terms of the expansion around the normal one (Fisher and Cornish).

    >>> _deviations(np.array([1.0, 11.0, 1e9])).round(3).tolist()
    [nan, 2.228, 1.96]
    """
    free = np.where(rows > 1, rows - 1, np.nan)
    first, second = (Z**3 + Z) / 4, (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    third = (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384
    found: Floats = Z + first / free + second / free**2 + third / free**3
    return found


def _around(value: Floats, width: Floats) -> Estimate:
    return Estimate(value, value - width, value + width)


def _numbers(table: pa.Table, column: str) -> Floats:
    """A column as floats; null is NaN."""
    found: Floats = pc.fill_null(table.column(column).cast(pa.float64()), float("nan")).to_numpy()
    return found
