"""Windows in SQL: what their calls mean, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.language.sql.tables import parameters, refused

SECONDS = {"SECOND": 1, "SECONDS": 1, "MINUTE": 60, "MINUTES": 60, "HOUR": 3_600, "DAY": 86_400, "WEEK": 604_800}


@given(st.sampled_from(list(SECONDS)), st.integers(1, 50), st.integers(1, 20))
def test_a_hop_slides_by_its_first_interval_and_spans_the_second(unit: str, slide: int, panes: int) -> None:
    call = f"HOP(ts, INTERVAL '{slide}' {unit}, INTERVAL '{slide * panes}' {unit})"
    found = parameters(f"SELECT COUNT(*) AS n FROM cars GROUP BY {call}", "window")
    slide_us = slide * SECONDS[unit] * 1_000_000
    assert found == {"size_us": slide_us * panes, "slide_us": slide_us}


@pytest.mark.parametrize(
    ("interval", "us"),
    [("'0.5' SECOND", 500_000), ("'20' MILLISECOND", 20_000), ("'2 minutes'", 120_000_000), ("3 SECOND", 3_000_000)],
)
def test_intervals_are_written_in_several_ways(interval: str, us: int) -> None:
    found = parameters(f"SELECT COUNT(*) AS n FROM cars GROUP BY TUMBLE(ts, INTERVAL {interval})", "window")
    assert found["size_us"] == us


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param("TABLE(CUMULATE(TABLE cars, DESCRIPTOR(ts), INTERVAL '1' DAY))", ["CUMULATE"], id="cumulate"),
        pytest.param("TABLE(TUMBLE(TABLE cars, ts, INTERVAL '1' DAY))", ["DESCRIPTOR(column)"], id="no descriptor"),
        pytest.param("TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts)))", ["table functions are"], id="no size"),
        pytest.param("TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), 10))", ["INTERVAL '10' SECOND", "'10'"], id="a number"),
        pytest.param(
            "TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), INTERVAL '1' MONTH))", ["got \"INTERVAL '1' MONTH\""], id="months"
        ),
        pytest.param(
            "TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), INTERVAL 'x' SECOND))", ["needs a number"], id="no number"
        ),
        pytest.param(
            "TABLE(TUMBLE(TABLE cars, DESCRIPTOR(road), INTERVAL '1' DAY))", ["event time, ts", "'road'"], id="no time"
        ),
        pytest.param("TABLE(TUMBLE(TABLE ships, DESCRIPTOR(ts), INTERVAL '1' DAY))", ["'ships'"], id="no table"),
        pytest.param(
            "TABLE(SESSION(TABLE cars, DESCRIPTOR(ts), INTERVAL '1' DAY))", ["needs a GROUP BY"], id="a session of rows"
        ),
        pytest.param(
            "TABLE(SESSION(TABLE cars PARTITION BY road, DESCRIPTOR(ts)))",
            ["table functions are", "cars PARTITION BY road, DESCRIPTOR(ts)"],
            id="a session without a gap",
        ),
    ],
)
def test_a_window_that_is_wrong_is_refused(source: str, said: list[str]) -> None:
    refused(f"SELECT * FROM {source}", *said)


def test_a_group_window_with_the_wrong_number_of_intervals_is_refused() -> None:
    refused("SELECT COUNT(*) AS n FROM cars GROUP BY HOP(ts, INTERVAL '1' SECOND)", "windows are TUMBLE", "HOP(ts")
