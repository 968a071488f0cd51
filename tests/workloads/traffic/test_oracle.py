"""The traffic oracle: two formulations, one result."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import SchemaError, SourceError
from shoal.workloads.traffic.events import Profile, TrafficEvents
from shoal.workloads.traffic.oracle import expected, expected_naive

SECOND = 1_000_000

# Around the Unix epoch, so that times before it are drawn too; few keys and speeds, so that they collide.
events = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(-50 * SECOND, 50 * SECOND) | st.integers(-50, 50).map(lambda s: s * SECOND),
            "region": st.integers(0, 2),
            "vehicle_type": st.sampled_from(["car", "bus"]),
            "speed": st.integers(0, 20_000).map(lambda s: s / 100) | st.sampled_from([0.0, 50.0]),
        }
    ),
    max_size=40,
)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Events as a table, in the generator's types."""
    fields = [field for field in TrafficEvents.schema() if field.name != "vehicle"]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def assert_same(left: dict[str, pa.Table], right: dict[str, pa.Table]) -> None:
    """Compare results exactly, but for averages, which may differ by rounding."""
    assert left["vehicle_count"] == right["vehicle_count"]
    assert left["top_speed"] == right["top_speed"]
    one, other = left["avg_speed"], right["avg_speed"]
    assert one.schema == other.schema
    assert one.drop_columns("avg_speed") == other.drop_columns("avg_speed")
    assert one["avg_speed"].to_pylist() == pytest.approx(other["avg_speed"].to_pylist(), rel=1e-12)


@settings(deadline=None, max_examples=25)
@given(events)
def test_panes_and_the_definition_of_a_window_agree(rows: list[dict[str, Any]]) -> None:
    assert_same(expected(table(rows)), expected_naive(table(rows)))


@pytest.mark.parametrize("profile", ["W1", "W2", "W3"])
def test_panes_and_the_definition_agree_on_generated_traffic(profile: Profile) -> None:
    city = TrafficEvents(profile, vehicles=300, regions=5, steps_per_s=2, disorder_s=3.0, period_s=30)
    traffic = pa.table(city.batch(10_000, 20_000))
    assert_same(expected(traffic), expected_naive(traffic))


def test_one_event_is_in_every_window_that_holds_it_and_in_no_other() -> None:
    result = expected(table([{"ts": 100 * SECOND, "region": 4, "vehicle_type": "bus", "speed": 31.5}]))
    ends = {name: [end.timestamp() for end in _ends(rows)] for name, rows in result.items()}
    assert ends == {
        "avg_speed": list(range(101, 131)),
        "vehicle_count": list(range(101, 111)),
        "top_speed": list(range(101, 121)),
    }
    assert set(result["avg_speed"]["avg_speed"].to_pylist()) == {31.5}
    assert set(result["vehicle_count"]["vehicle_count"].to_pylist()) == {1}
    assert result["top_speed"]["top_speed"].to_pylist() == [[31.5]] * 20


def _ends(rows: pa.Table) -> list[datetime]:
    return [end.replace(tzinfo=UTC) for end in rows["window_end"].to_pylist()]


def test_a_window_holds_its_start_but_not_its_end() -> None:
    rows = [{"ts": ts, "region": 0, "vehicle_type": "car", "speed": 1.0} for ts in (0, 10 * SECOND)]
    counts = expected(table(rows))["vehicle_count"]["vehicle_count"].to_pylist()
    # The windows ending at 1..10 s hold the first event, those ending at 11..20 s the second.
    assert counts == [1] * 20


def test_top_speed_has_up_to_three_values_fastest_first_equal_ones_included() -> None:
    rows = [{"ts": 0, "region": 0, "vehicle_type": "car", "speed": s} for s in (20.0, 50.0, 10.0, 50.0)]
    rows.append({"ts": 0, "region": 1, "vehicle_type": "car", "speed": 5.0})
    result = expected(table(rows))["top_speed"]["top_speed"].to_pylist()
    assert result == [[50.0, 50.0, 20.0]] * 20 + [[5.0]] * 20


def test_averages_do_not_lose_digits_to_the_order_of_events() -> None:
    speeds = [1e16, 1.0, 1.0, -1e16] * 25
    rows = [{"ts": 0, "region": 0, "vehicle_type": "car", "speed": s} for s in speeds]
    assert expected(table(rows))["avg_speed"]["avg_speed"][0].as_py() == pytest.approx(0.5, rel=1e-9)


def test_no_events_give_empty_results_of_the_right_types() -> None:
    empty, some = expected(table([])), expected(pa.table(TrafficEvents(vehicles=10).batch(0, 10)))
    assert empty.keys() == {"avg_speed", "vehicle_count", "top_speed"}
    assert empty == {name: rows.schema.empty_table() for name, rows in some.items()}


def test_parquet_files_give_the_results_of_their_union(tmp_path: Path) -> None:
    city = TrafficEvents("W2", vehicles=200, regions=5)
    for part in range(3):
        pq.write_table(pa.table(city.batch(part * 500, part * 500 + 500)), tmp_path / f"part-{part}.parquet")
    from_files, from_table = expected(tmp_path / "*.parquet"), expected(pa.table(city.batch(0, 1500)))
    assert_same(from_files, from_table)


def test_times_with_a_zone_mean_the_same_instants() -> None:
    traffic = pa.table(TrafficEvents(vehicles=100, regions=2).batch(0, 500))
    zoned = traffic.set_column(0, "ts", traffic["ts"].cast(pa.timestamp("us", "Asia/Tokyo")))
    assert_same(expected(zoned), expected(traffic))


def test_a_glob_without_files_is_rejected_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot read .*nothing-\*\.parquet"):
        expected(tmp_path / "nothing-*.parquet")


def test_events_without_a_needed_column_are_rejected_with_its_name() -> None:
    traffic = pa.table(TrafficEvents(vehicles=10).batch(0, 10)).drop_columns(["speed"])
    with pytest.raises(SchemaError, match="lack speed; got ts, vehicle, region, vehicle_type"):
        expected(traffic)
