"""Durations: every form of the same time is the same number of microseconds."""

from datetime import timedelta
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.language.yaml.graph_texts import SHORT, wrong

from shoal.errors import GraphError
from shoal.language.python.stream import Stream
from shoal.language.yaml.graph_file import load_graph
from shoal.model.query.duration import FORMS, duration_us
from shoal.model.query.window import hop, sessions, tumbling


@given(st.timedeltas(timedelta(0), timedelta(days=10_000)))
def test_a_timedelta_equals_the_text_of_its_parts(duration: timedelta) -> None:
    text = f"{duration.days} d {duration.seconds}s {duration.microseconds} us"
    assert duration_us(duration, "it") == duration_us(text, "it")
    assert duration_us(Fraction(duration_us(text, "it"), 1_000_000), "it") == duration_us(duration, "it")


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("90 s", 90_000_000),
        ("1 h", 3_600_000_000),
        ("1h30min", 5_400_000_000),
        ("1.5 hours", 5_400_000_000),
        ("250ms", 250_000),
        (" 2 Days ", 172_800_000_000),
        ("1 week", 604_800_000_000),
        ("-5 s", -5_000_000),
        (np.int64(3), 3_000_000),
    ],
)
def test_a_duration_is_read(text: object, us: int) -> None:
    assert duration_us(text, "it") == us


@pytest.mark.parametrize("wrong", ["one day", "10", "", "1 fortnight", "s", "1 h later", True, None, float("nan"), [1]])
def test_anything_else_is_refused_with_all_forms(wrong: object) -> None:
    with pytest.raises(GraphError) as caught:
        duration_us(wrong, "window size")
    assert str(caught.value) == f"window size must be {FORMS}; got {wrong!r}"


def test_durations_of_all_forms_make_the_same_query() -> None:
    def query(*, lateness: object, size: object, within: object, gap: object) -> list[object]:
        cars = Stream("cars", {"ts": "timestamp", "road": "int64"}, time="ts", lateness_s=lateness)  # type: ignore[arg-type]
        keyed = cars.key_by("road")
        flows = [
            keyed.deduplicate(within),  # type: ignore[arg-type]
            keyed.match("A B", within_s=within, measures={"n": "count(*)"}),  # type: ignore[arg-type]
            cars.join(cars, on="road", within_s=(0, within)),  # type: ignore[arg-type]
        ]
        windows = [tumbling(size), hop(size, within), sessions(gap)]  # type: ignore[arg-type]
        return [*windows, *(flow.operators for flow in flows)]

    seconds = query(lateness=60, size=3600, within=60.0, gap=1800)
    assert query(lateness="1 min", size="1 h", within="60 s", gap="0.5 h") == seconds
    assert (
        query(
            lateness=timedelta(minutes=1),
            size=timedelta(hours=1),
            within=timedelta(seconds=60),
            gap=timedelta(minutes=30),
        )
        == seconds
    )


def test_a_graph_file_takes_texts_for_microseconds_and_seconds() -> None:
    short = wrong("size_us: 10000000, slide_us: 10000000", 'size_us: 10 s, slide_us: "10 s"')
    assert load_graph(wrong("lateness-s: 2", "lateness-s: 2 s", short), "x") == load_graph(SHORT, "x")
