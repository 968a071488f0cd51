"""Random steps one behind another over columns of every type, and blocks full of extremes to send through them."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from tests.expressions import TEXTS, expressions
from tests.random_expressions import value

from shoal.compiler.codegen.fused import types_after
from shoal.compiler.steps import (
    Assign,
    Attach,
    DispatchByGroup,
    DispatchByOrigin,
    DispatchByValue,
    Filter,
    Retime,
    Select,
    Step,
)
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.nullable import nullable
from shoal.kernels.columns.table import INSTANCE
from shoal.model.query.expression import col
from shoal.model.query.schema import TIME, FieldType
from shoal.model.query.window import Window

TYPES: Mapping[str, FieldType] = {
    "i": "int64",
    "j": "int64",
    "x": "float64",
    "y": "float64",
    "s": "string",
    "r": "string",
    "flag": "bool",
    "ts": "timestamp",
    "due": "timestamp",
}
_INTEGERS = [0, 1, -1, 2, 3, -3, 4, 5, 7, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1]
_FLOATS = [0.0, -0.0, 1.0, 0.5, -2.5, 3.0, 1e-300, 1e16, 2.0**53, 2.0**63, -(2.0**63), 1e300, math.inf, -math.inf]
_TIMES = [0, -1, 1, 5_000_000, 9_999_999, 10_000_000, -(2**55), 2**55, 1_704_067_200_123_456]
Types = Mapping[str, FieldType]
Draw = Callable[[st.SearchStrategy[Any]], Any]


TIMES = ("ts", "due", "window_start", "window_end")
"""Columns that may become event time, which is never null."""


def wild_block(rows: int, seed: int, *, encode: bool = False, nulls: float = 0.0) -> Block:
    """Rows with every combination of what is likely to go wrong; `nulls` is the share of nulls in other columns."""
    random = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for name, type_ in TYPES.items():
        if type_ == "string":
            texts = pa.array([TEXTS[number] for number in random.integers(0, len(TEXTS), rows)], pa.string())
            columns[name] = texts.dictionary_encode() if encode else texts
        elif type_ == "bool":
            columns[name] = random.integers(0, 2, rows).astype(bool)
        elif type_ == "float64":
            some = random.normal(size=rows) * 10.0 ** random.integers(-3, 4, rows)
            columns[name] = np.where(random.random(rows) < 0.5, random.choice([*_FLOATS, math.nan], rows), some)
        else:
            pool = _TIMES if type_ == "timestamp" else _INTEGERS
            columns[name] = np.where(
                random.random(rows) < 0.6, random.choice(np.array(pool), rows), random.integers(-9, 9, rows)
            )
    if nulls:
        columns = {
            name: column if name in TIMES else _with_nulls(column, random.random(rows) >= nulls)
            for name, column in columns.items()
        }
    return Block(columns, rows)


def _with_nulls(column: Any, valid: Any) -> Any:
    if isinstance(column, pa.DictionaryArray):
        indices = pa.array(column.indices.to_numpy(), mask=~valid)
        return pa.DictionaryArray.from_arrays(indices, column.dictionary)
    if isinstance(column, pa.Array):
        return pa.array(column.to_pylist(), pa.string(), mask=~valid)
    return nullable(column, valid)


def names_of(types: Types, *wanted: str) -> list[str]:
    """Columns of some types, those that operators have added included."""
    return [name for name, type_ in types.items() if type_ in wanted]


@st.composite
def chains(draw: Draw, most: int = 5) -> list[Step]:
    """Steps that fit one behind another."""
    steps: list[Step] = []
    types: Types = TYPES
    for _ in range(draw(st.integers(1, most))):
        step = draw(st.sampled_from(_STEPS))(draw, types)
        after = None if step is None else types_after([step], types)
        if step is not None and after is not None:
            steps.append(step)
            types = after
    return steps or [_filter(draw, TYPES)]


def _plain(types: Types) -> dict[str, str]:
    return {name: type_ for name, type_ in types.items() if name.isidentifier()}


def _filter(draw: Draw, types: Types) -> Step:
    return Filter(draw(expressions(_plain(types), "bool", 2)))


def _select(draw: Draw, types: Types) -> Step:
    kept = draw(st.lists(st.sampled_from(sorted(_plain(types))), min_size=1, max_size=5, unique=True))
    chosen = {name: col(name) if name in TIMES else draw(expressions(_plain(types), types[name], 0)) for name in kept}
    for number in range(draw(st.integers(0, 3))):
        wanted = draw(st.sampled_from(["int64", "float64", "string", "bool", "timestamp"]))
        fits = wanted != "timestamp" or names_of(_plain(types), "timestamp")  # type: ignore[arg-type]
        chosen[f"c{number}"] = draw(expressions(_plain(types), wanted, 2)) if fits else draw(expressions({}, "int64"))
    if {"int64", "float64"} <= set(types.values()) and draw(st.booleans()):
        chosen["called"] = value(draw, _plain(types))
    return Select(tuple(chosen.items()))


def _group(draw: Draw, types: Types) -> Step:
    names = [name for name in names_of(types, "int64", "string", "bool", "timestamp", "float64") if name != INSTANCE]
    return DispatchByGroup(tuple(draw(st.lists(st.sampled_from(names), max_size=3))), draw(st.integers(1, 9)))


def _keys(draw: Draw, types: Types) -> tuple[str, tuple[Any, ...]] | None:
    names = names_of(_plain(types), "int64", "string")  # type: ignore[arg-type]
    if not names:
        return None
    column = draw(st.sampled_from(names))
    pool = TEXTS if types[column] == "string" else draw(st.sampled_from([_INTEGERS, range(-5, 6)]))
    return column, tuple(draw(st.lists(st.sampled_from(list(pool)), max_size=6, unique=True)))


def _by_value(draw: Draw, types: Types) -> Step | None:
    keys = _keys(draw, types)
    return None if keys is None else DispatchByValue(*keys)


def _attach(draw: Draw, types: Types) -> Step | None:
    keys = _keys(draw, types)
    if keys is None:
        return None
    length = len(keys[1])
    columns: Any = (
        ("limit", "float64", tuple(0.5 * number for number in range(length))),
        ("label", "string", tuple(TEXTS[number % 6] for number in range(length))),
        ("rank", "int64", tuple(range(length))),
    )
    given = (("limit", -0.0), ("label", "none"), ("rank", -1))
    defaults = draw(st.sampled_from([None, given, (("limit", None), ("label", None), ("rank", None))]))
    return Attach(keys[0], keys[1], columns, defaults)


def _assign(draw: Draw, types: Types) -> Step | None:
    times = [name for name in TIMES if name in types]
    window = draw(st.sampled_from([Window(10_000_000, 10_000_000), Window(6_000_000, 2_000_000)]))
    return Assign(window, draw(st.sampled_from(times))) if times else None


def _retime(draw: Draw, types: Types) -> Step | None:
    times = [name for name in TIMES if name in types]
    return Retime(draw(st.sampled_from(times))) if times else None


def _by_origin(draw: Draw, types: Types) -> Step | None:
    return (
        DispatchByOrigin(tuple(draw(st.lists(st.integers(-1, 3), min_size=9, max_size=9))))
        if INSTANCE in types
        else None
    )


_STEPS: list[Callable[[Draw, Types], Step | None]] = [
    _filter,
    _filter,
    _filter,
    _select,
    _select,
    _select,
    _group,
    _by_value,
    _attach,
    _assign,
    _retime,
    _by_origin,
]
assert TIME not in TYPES
