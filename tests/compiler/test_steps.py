"""Steps: stateless operators, and how rows find their instance."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.compiler.steps import Attach, DispatchByGroup, DispatchByValue, Filter, Select, Step
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.model.query.expression import col, lit

BLOCK = Block({"road": np.array([3, 1, 3, 2]), "kind": pa.array(["a", "b", "", "a"])}, 4)


def columns(block: Block) -> dict[str, list[Any]]:
    return {n: c.tolist() if isinstance(c, np.ndarray) else c.to_pylist() for n, c in block.columns.items()}


def test_a_filter_keeps_the_rows_for_which_it_holds() -> None:
    step = Filter((col("road") == 3) & (col("kind") != ""))
    assert columns(step.apply(BLOCK)) == {"road": [3], "kind": ["a"]}
    assert step.reads() == {"road", "kind"}


def test_a_filter_drops_rows_for_which_it_is_null() -> None:
    block = Block.from_arrow(pa.record_batch({"speed": [10.0, None, 90.0, math.nan], "kind": ["a", "b", None, "c"]}))
    assert columns(Filter(col("speed") > 50).apply(block))["kind"] == [None, "c"]
    assert columns(Filter(~(col("speed") > 50)).apply(block))["kind"] == ["a"]
    assert columns(Filter(col("kind") != "a").apply(block))["kind"] == ["b", "c"]


ATTACHED: Any = (("limit", "float64", (0.5, None)), ("label", "string", ("one", "two")), ("due", "timestamp", (7, 8)))


@pytest.mark.parametrize(
    ("defaults", "wanted"),
    [
        pytest.param(None, {"limit": [None, 0.5], "label": ["two", "one"], "due": [8, 7]}, id="inner"),
        pytest.param(
            (("limit", None), ("label", None), ("due", None)),
            {"limit": [None, None, None, 0.5], "label": ["two", None, None, "one"], "due": [8, None, None, 7]},
            id="nulls for the missing",
        ),
        pytest.param(
            (("limit", 1), ("label", ""), ("due", 0)),
            {"limit": [None, 1.0, 1.0, 0.5], "label": ["two", "", "", "one"], "due": [8, 0, 0, 7]},
            id="defaults for the missing",
        ),
    ],
)
@pytest.mark.parametrize("key", ["road", "name"])
def test_a_key_that_is_null_or_unknown_has_no_match_in_a_table(key: str, defaults: Any, wanted: Any) -> None:
    block = Block.from_arrow(pa.record_batch({"road": [2, None, 0, 1], "name": ["b", None, "", "a"]}))
    step = Attach(key, (1, 2) if key == "road" else ("a", "b"), ATTACHED, defaults)
    got = columns(step.apply(block))
    assert {name: got[name] for name in wanted} == wanted
    assert got.get("has_right", [True] * 2) == [value is not None and value not in (0, "") for value in got[key]]


def test_a_select_keeps_its_columns_and_the_instance() -> None:
    step = Select((("kind", col("kind")), ("twice", col("road") * 2), ("one", lit("x"))))
    dispatched = DispatchByValue("road", (3,)).apply(BLOCK)
    assert columns(step.apply(dispatched)) == {"kind": ["a", ""], "twice": [6, 6], "one": ["x", "x"], INSTANCE: [0, 0]}
    assert step.reads() == {"kind", "road"}


@pytest.mark.parametrize(
    ("step", "only_drops"),
    [
        pytest.param(Select((("road", col("road")),)), True, id="leaving out"),
        pytest.param(Select((("road", col("kind")),)), False, id="renaming"),
        pytest.param(Select((("road", col("road")), ("x", lit(1)))), False, id="adding"),
    ],
)
def test_a_select_knows_whether_it_only_leaves_columns_out(step: Select, only_drops: bool) -> None:
    assert step.only_drops == only_drops


@pytest.mark.parametrize(
    ("column", "values", "wanted"),
    [
        pytest.param("road", (2, 3), {"road": [3, 3, 2], "kind": ["a", "", "a"], INSTANCE: [1, 1, 0]}, id="integers"),
        pytest.param("road", (3, 10**9), {"road": [3, 3], "kind": ["a", ""], INSTANCE: [0, 0]}, id="far integers"),
        pytest.param(
            "kind", ("", "z", "a"), {"road": [3, 3, 2], "kind": ["a", "", "a"], INSTANCE: [2, 0, 2]}, id="texts"
        ),
        pytest.param("kind", ("z",), {"road": [], "kind": [], INSTANCE: []}, id="nobody's rows"),
    ],
)
def test_rows_go_to_the_instance_that_asked_for_their_value(
    column: str, values: tuple[Any, ...], wanted: dict[str, list[Any]]
) -> None:
    assert columns(DispatchByValue(column, values).apply(BLOCK)) == wanted


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), st.integers(1, 9))
def test_an_integer_alone_goes_to_its_group_by_value(values: list[int], groups: int) -> None:
    block = DispatchByGroup(("v",), groups).apply(Block({"v": np.array(values, np.int64)}, len(values)))
    assert block.columns[INSTANCE].tolist() == [value % groups for value in values]


KEYS = st.tuples(st.integers(-3, 3), st.sampled_from(["", "a", "日本"]), st.booleans())


@settings(deadline=None, max_examples=50)
@given(st.lists(KEYS, max_size=20), st.integers(1, 9), st.booleans())
def test_equal_keys_go_to_equal_groups(keys: list[tuple[int, str, bool]], groups: int, encode: bool) -> None:
    texts = pa.array([key[1] for key in keys], pa.string())
    block = Block(
        {
            "i": np.array([key[0] for key in keys], np.int64),
            "s": texts.dictionary_encode() if encode else texts,
            "b": np.array([key[2] for key in keys], bool),
        },
        len(keys),
    )
    instance = DispatchByGroup(("i", "s", "b"), groups).apply(block).columns[INSTANCE].tolist()
    assert all(0 <= number < groups for number in instance)
    assert len(set(zip(instance, keys, strict=True))) == len(set(keys))


def test_groups_of_texts_are_about_equally_large() -> None:
    texts = pa.array([f"vehicle {i}" for i in range(10_000)])
    sizes = Counter(DispatchByGroup(("s",), 10).apply(Block({"s": texts}, 10_000)).columns[INSTANCE].tolist())
    assert min(sizes.values()) > 800
    assert max(sizes.values()) < 1_200


def test_groups_of_texts_are_the_same_in_every_process_and_version() -> None:
    """State is kept under these numbers."""
    block = Block({"s": pa.array(["a", "b", "Straße"]), "i": np.array([1, 2, 3])}, 3)
    assert DispatchByGroup(("s",), 1000).apply(block).columns[INSTANCE].tolist() == [216, 693, 207]
    assert DispatchByGroup(("s", "i"), 1000).apply(block).columns[INSTANCE].tolist() == [379, 434, 377]


def test_without_columns_everything_goes_to_the_first_instance() -> None:
    assert DispatchByGroup((), 1).apply(BLOCK).columns[INSTANCE].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(Filter(col("a") > 1), Filter(col("a") > 2), id="filters"),
        pytest.param(Filter(col("a") == 1), Filter(col("a") == "1"), id="filters by type"),
        pytest.param(Select((("a", col("a")),)), Select((("b", col("a")),)), id="selects"),
        pytest.param(DispatchByValue("a", (1,)), DispatchByValue("a", ("1",)), id="values"),
        pytest.param(DispatchByValue("a", (1, 2)), DispatchByValue("a", (2, 1)), id="orders of values"),
        pytest.param(DispatchByGroup(("a",), 2), DispatchByGroup(("a",), 3), id="groups"),
        pytest.param(DispatchByGroup(("a", "b"), 2), DispatchByGroup(("b", "a"), 2), id="orders of columns"),
    ],
)
def test_different_steps_have_different_texts(one: Step, other: Step) -> None:
    assert one.text != other.text
