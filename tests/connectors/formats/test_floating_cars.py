"""Floating-car data is parsed as it comes, wherever its text is cut."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.recorded_sumo import drive, floating_cars

from shoal.connectors.formats.floating_cars import SCHEMA, FloatingCars

STEPS = drive(12)
TEXT = floating_cars(STEPS).encode()
START_US = 1_000_000_000


def parsed(text: bytes, *cuts: int) -> list[pa.RecordBatch]:
    cars, bounds = FloatingCars(START_US), [0, *sorted(cuts), len(text)]
    return [step for a, b in pairwise(bounds) for step in cars.parse(text[a:b])]


def test_a_step_has_a_row_for_each_vehicle_at_the_time_of_the_step() -> None:
    steps = parsed(TEXT)
    assert [step.num_rows for step in steps] == [len(vehicles) for vehicles in STEPS]
    assert all(step.schema == SCHEMA for step in steps)
    row = steps[7].slice(3, 1)
    assert row["ts"].cast(pa.int64()).to_pylist() == [START_US + 7_000_000]
    wanted = {name: type(row[name].to_pylist()[0])(value) for name, value in STEPS[7][3].items()}
    assert row.select(list(wanted)).to_pylist() == [wanted]
    assert row["edge"].to_pylist() == [str(STEPS[7][3]["lane"]).removesuffix("_0")]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, len(TEXT)), max_size=6))
def test_the_rows_do_not_depend_on_where_the_text_is_cut(cuts: list[int]) -> None:
    assert parsed(TEXT, *cuts) == parsed(TEXT)


def test_names_are_those_that_the_xml_stands_for_and_persons_are_left_out() -> None:
    text = b"""<fcd-export><timestep time="0.10">
        <person id="p" x="1" y="2"/><vehicle id="a&amp;&quot;b&#228;" x="1"/></timestep></fcd-export>"""
    [step] = parsed(text)
    assert step.select(["id", "x", "lane", "edge"]).to_pylist() == [
        {"id": 'a&"bä', "x": 1.0, "lane": None, "edge": None}
    ]


def test_the_document_is_complete_at_its_last_tag_only() -> None:
    cars, last = FloatingCars(0), TEXT.index(b"</fcd-export>")
    cars.parse(TEXT[:last])
    assert not cars.complete
    cars.parse(TEXT[last:])
    assert cars.complete


@pytest.mark.parametrize("text", [b"<fcd-export><timestep", b"no XML at all"], ids=["cut tag", "no tag"])
def test_text_that_is_no_xml_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="not XML"):
        parsed(text + b"<<", len(text))
