"""The expected results of the `geo-pubsub` queries, computed in batch by NumPy, without any code of the runtimes.

A subscription holds from the time of the row that inserts or updates it until the time of its next row, exclusive. A
point matches the subscriptions that hold at its time and whose rectangle contains it; borders belong to a rectangle.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shoal.workloads.oracle_input import relation_of, table_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Pairs = Iterator[tuple[Ints, Ints]]

POINT_COLUMNS = ("ts", "point", "x", "y", "value")
CHANGE_COLUMNS = ("ts", "subscription", "action", "min_x", "min_y", "max_x", "max_y", "least")
SCHEMA = pa.schema({"ts": pa.timestamp("us"), "point": pa.int64(), "subscription": pa.int64()})
DELETED = "delete"
NEVER = np.iinfo(np.int64).max
PAIRS = 1 << 22
"""Pairs of a point and a subscription that are looked at together, for the sake of memory."""

IN_DUCKDB = """
WITH versions AS (
    SELECT *, lead(ts) OVER (PARTITION BY subscription ORDER BY ts) AS until FROM changes
)
SELECT p.ts, p.point, v.subscription FROM points AS p JOIN versions AS v
ON v.min_x <= p.x AND p.x <= v.max_x AND v.min_y <= p.y AND p.y <= v.max_y AND v.ts <= p.ts
WHERE v.action <> '{deleted}' AND (v.until IS NULL OR p.ts < v.until) {wanted}
ORDER BY ALL
"""
WANTED = {"matches": "", "alerts": "AND p.value >= v.least"}


@dataclass(frozen=True)
class Versions:
    """Subscriptions as they were for a while: every row that inserts or updates one, with its lifetime."""

    subscription: Ints
    since: Ints
    until: Ints
    box: tuple[Floats, Floats, Floats, Floats]
    least: Ints

    @classmethod
    def of(cls, changes: pa.Table) -> "Versions":
        """The versions that rows of changes make, in any order; times of a subscription must differ."""
        ids, times = changes["subscription"].to_numpy(), changes["ts"].cast(pa.int64()).to_numpy()
        order = np.lexsort((times, ids))
        ids, times = ids[order], times[order]
        until = np.full(ids.size, NEVER)
        until[:-1][ids[:-1] == ids[1:]] = times[1:][ids[:-1] == ids[1:]]
        kept = pc.not_equal(changes["action"].cast(pa.string()), DELETED).to_numpy()[order]
        min_x, min_y, max_x, max_y, least = (changes[name].to_numpy()[order][kept] for name in CHANGE_COLUMNS[3:])
        return cls(ids[kept], times[kept], until[kept], (min_x, min_y, max_x, max_y), least)


@dataclass(frozen=True)
class Places:
    """The points as arrays."""

    ts: Ints
    point: Ints
    x: Floats
    y: Floats
    value: Ints

    @classmethod
    def of(cls, points: pa.Table) -> "Places":
        """The points of a table, ordered from west to east."""
        order = np.argsort(points["x"].to_numpy(), kind="stable")
        ts = points["ts"].cast(pa.int64()).to_numpy()[order]
        return cls(ts, *(points[name].to_numpy()[order] for name in POINT_COLUMNS[1:]))


def expected(points: pa.Table, changes: pa.Table) -> dict[str, pa.Table]:
    """Every match, and those that reach the least value, in order; tests only pairs whose longitudes fit.

    >>> points = pa.table({"ts": [5, 9], "point": [0, 1], "x": [1.0, 2.0], "y": [1.0, 1.0], "value": [50, 10]})
    >>> box = {"min_x": [1.0], "min_y": [0.0], "max_x": [2.0], "max_y": [1.0]}
    >>> changes = pa.table({"ts": [5], "subscription": [7], "action": ["insert"], **box, "least": [30]})
    >>> found = expected(points, changes)
    >>> found["matches"]["point"].to_pylist(), found["alerts"]["point"].to_pylist()
    ([0, 1], [0])
    """
    return _expected(points, changes, _slabs)


def expected_naive(points: pa.Table, changes: pa.Table) -> dict[str, pa.Table]:
    """The same by testing every point against every version of a subscription; for small data."""
    return _expected(points, changes, _all_pairs)


def expected_in_duckdb(points: pa.Table, changes: pa.Table) -> dict[str, pa.Table]:
    """The same as a join in SQL; for small data."""
    with duckdb.connect() as database:
        relation_of(database, "geo-pubsub", points, POINT_COLUMNS).create_view("points")
        relation_of(database, "geo-pubsub", changes, CHANGE_COLUMNS).create_view("changes")
        rows = {name: database.sql(IN_DUCKDB.format(deleted=DELETED, wanted=wanted)) for name, wanted in WANTED.items()}
        return {name: found.to_arrow_table().cast(SCHEMA) for name, found in rows.items()}


def _expected(
    points: pa.Table, changes: pa.Table, candidates: Callable[[Places, Versions], Pairs]
) -> dict[str, pa.Table]:
    """The tables of all matches among candidates."""
    places = Places.of(table_of("geo-pubsub", points, POINT_COLUMNS))
    versions = Versions.of(table_of("geo-pubsub", changes, CHANGE_COLUMNS))
    found = [_matching(places, versions, *pairs) for pairs in candidates(places, versions)]
    p, v = (np.concatenate([pairs[side] for pairs in found] or [np.empty(0, np.int64)]) for side in (0, 1))
    order = np.lexsort((versions.subscription[v], places.point[p], places.ts[p]))
    p, v = p[order], v[order]
    wanted = places.value[p] >= versions.least[v]
    kept = {"matches": np.ones(p.size, bool), "alerts": wanted}
    return {name: _table(places, versions, p[rows], v[rows]) for name, rows in kept.items()}


def _table(places: Places, versions: Versions, p: Ints, v: Ints) -> pa.Table:
    ts = pa.array(places.ts[p]).view(pa.timestamp("us"))
    return pa.table([ts, pa.array(places.point[p]), pa.array(versions.subscription[v])], schema=SCHEMA)


def _matching(places: Places, versions: Versions, p: Ints, v: Ints) -> tuple[Ints, Ints]:
    """The pairs of a point and a version in which the point is inside, in space and in time."""
    min_x, min_y, max_x, max_y = versions.box
    x, y, ts = places.x[p], places.y[p], places.ts[p]
    inside = (min_x[v] <= x) & (x <= max_x[v]) & (min_y[v] <= y) & (y <= max_y[v])
    inside &= (versions.since[v] <= ts) & (ts < versions.until[v])
    return p[inside], v[inside]


def _all_pairs(places: Places, versions: Versions) -> Pairs:
    """Every point with every version, some versions at a time."""
    size = places.ts.size
    for first in range(0, versions.since.size, step := max(1, PAIRS // max(1, size))):
        some = np.arange(first, min(versions.since.size, first + step))
        yield np.tile(np.arange(size), some.size), np.repeat(some, size)


def _slabs(places: Places, versions: Versions) -> Pairs:
    """Every version with the points between its western and eastern border, some versions at a time."""
    start = np.searchsorted(places.x, versions.box[0], side="left")
    length = np.maximum(0, np.searchsorted(places.x, versions.box[2], side="right") - start)
    ends, first = np.cumsum(length), 0
    while first < length.size:
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + PAIRS, side="right")))
        sizes = length[first:last]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        yield within + np.repeat(start[first:last], sizes), np.repeat(np.arange(first, last), sizes)
        first = last
