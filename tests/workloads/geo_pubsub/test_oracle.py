"""The geo-pubsub oracle: three ways to compute the matches agree, and lifetimes and borders are as defined."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import SchemaError
from shoal.workloads.geo_pubsub import oracle
from shoal.workloads.geo_pubsub.hotspots import Heat
from shoal.workloads.geo_pubsub.oracle import expected, expected_in_duckdb, expected_naive
from shoal.workloads.geo_pubsub.points import SCHEMA as POINTS
from shoal.workloads.geo_pubsub.points import GeoPoints
from shoal.workloads.geo_pubsub.subscriptions import ACTIONS, SubscriptionChanges, Subscriptions
from shoal.workloads.geo_pubsub.subscriptions import SCHEMA as CHANGES

Rows = list[tuple[Any, ...]]

place = st.integers(0, 5).map(float)
point_rows = st.lists(st.tuples(st.integers(0, 9), place, place, st.integers(0, 3)), max_size=12)
change_rows = st.lists(
    st.tuples(
        st.integers(0, 9), st.integers(0, 2), st.sampled_from(ACTIONS), place, place, place, place, st.integers(0, 3)
    ),
    max_size=12,
    unique_by=lambda row: row[:2],
)


def points_of(rows: Rows) -> pa.Table:
    numbered = [(ts, number, x, y, value) for number, (ts, x, y, value) in enumerate(rows)]
    return pa.Table.from_pylist([dict(zip(POINTS.names, row, strict=True)) for row in numbered], POINTS)


def changes_of(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(CHANGES.names, row, strict=True)) for row in rows], CHANGES)


def in_plain_python(points: Rows, changes: Rows) -> list[tuple[int, int]]:
    """The definition: for every point, the last row of each subscription up to its time."""
    found = []
    for number, (ts, x, y, _) in enumerate(points):
        last = {change[1]: change for change in sorted(changes) if change[0] <= ts}
        for subscription, (_, _, action, min_x, min_y, max_x, max_y, _) in last.items():
            if action != "delete" and min_x <= x <= max_x and min_y <= y <= max_y:
                found.append((number, subscription))
    return sorted(found)


@settings(deadline=None, max_examples=60)
@given(point_rows, change_rows)
def test_matches_are_those_of_the_definition(points: Rows, changes: Rows) -> None:
    found = expected(points_of(points), changes_of(changes))["matches"]
    pairs = zip(found["point"].to_pylist(), found["subscription"].to_pylist(), strict=True)
    assert sorted(pairs) == in_plain_python(points, changes)


@pytest.mark.parametrize("pairs", [1, 1000, 1 << 22])
def test_the_three_ways_agree_on_generated_events(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "PAIRS", pairs)
    heat = Heat("double", hot_from_s=1, hot_s=4)
    points = pa.table(GeoPoints(heat, per_s=200, seed=3).batch(0, 1000))
    first = Subscriptions(heat, 100, side=0.03, seed=3).batch(0, 100)
    changes = SubscriptionChanges(heat, 100, churn=20, hot_subscriptions=20, side=0.03, seed=3)
    table = pa.Table.from_batches([first, changes.batch(0, changes.index_at(5.0))])
    by_slab = expected(points, table)
    assert by_slab == expected_in_duckdb(points, table)
    if pairs > 1:
        assert by_slab == expected_naive(points, table)
    assert by_slab["matches"].num_rows > 500
    assert 0 < by_slab["alerts"].num_rows < by_slab["matches"].num_rows


def test_a_subscription_holds_from_its_row_until_before_the_next_and_borders_belong_to_it() -> None:
    inserted, updated = (2, 7, "insert", 1.0, 1.0, 2.0, 2.0, 0), (5, 7, "update", 3.0, 3.0, 4.0, 4.0, 0)
    changes = changes_of([inserted, updated, (8, 7, "delete", 0.0, 0.0, 9.0, 9.0, 0)])
    at_corner = [(ts, 2.0, 1.0, 0) for ts in (1, 2, 4, 5)]
    at_other = [(ts, 3.0, 4.0, 0) for ts in (4, 5, 7, 8)]
    found = expected(points_of(at_corner + at_other), changes)["matches"]
    assert found["point"].to_pylist() == [1, 2, 5, 6]
    assert np.array_equal(found["ts"].cast(pa.int64()).to_numpy(), [2, 4, 5, 7])


def test_alerts_are_matches_whose_value_is_large_enough() -> None:
    changes = changes_of([(0, 1, "insert", 0.0, 0.0, 9.0, 9.0, 2)])
    found = expected(points_of([(1, 1.0, 1.0, value) for value in range(4)]), changes)
    assert found["alerts"]["point"].to_pylist() == [2, 3]


def test_nothing_matches_nothing() -> None:
    found = expected(points_of([]), changes_of([]))
    assert [table.num_rows for table in found.values()] == [0, 0]


def test_a_missing_column_is_named() -> None:
    with pytest.raises(SchemaError, match="geo-pubsub events lack least; got ts, "):
        expected(points_of([]), changes_of([]).drop_columns(["least"]))
