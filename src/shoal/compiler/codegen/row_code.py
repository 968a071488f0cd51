"""Row code: the variables of a generated loop, how each is computed, and the arrays that the loop needs for it.

A number of the current row is a variable. If it may be null, another variable says whether it is valid; where it is
not, the number means nothing. A loop never reads a text, only the number of its dictionary entry; null is an entry too,
the last one, in columns that have nulls.
Array indices are unsigned: for signed ones Numba would add code that checks for negative indices.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.compiler.codegen.scalars import found
from shoal.errors import ShoalError
from shoal.kernels.columns.block import Column
from shoal.kernels.columns.index import DENSE_TABLE, Index
from shoal.kernels.columns.nullable import Nullable, present, values_of

Dtype = np.dtype[Any]
INT, FLOAT, BOOL = np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.bool_)
BITS, CODE, TEXT = np.dtype(np.uint64), np.dtype(np.int32), np.dtype(object)
DTYPES = {"int64": INT, "timestamp": INT, "float64": FLOAT, "bool": BOOL}
"""Types of columns whose values a loop can read."""
_TOO_LARGE = 2.0**63


class FusionError(ShoalError):
    """A step or expression without row code, which is computed on whole columns."""


@dataclass(frozen=True, eq=False)
class Argument:
    """An array that a loop reads, or that its result is taken from.

    A column as it is, with 0 for null; which of its rows are valid; the codes of a text column; what `make` gives for
    its entries; or a table that never changes. `nullable`: whether null is an entry of the text column.
    """

    name: str
    kind: Literal["column", "valid", "codes", "entries", "table"]
    dtype: Dtype
    column: str = ""
    make: Callable[[pa.Array], Column] | None = None
    table: Column = None
    nullable: bool = False


@dataclass(frozen=True, eq=False)
class Number:
    """A number of the current row: its variable or constant, and the numbers it is computed from.

    `column`: its input column, if it is one unchanged; `valid`: whether it is not null, None if it never is.
    """

    name: str
    dtype: Dtype
    text: str = ""
    needs: tuple["Number", ...] = ()
    column: str = ""
    constant: Any = None
    valid: "Number | None" = None


@dataclass(frozen=True, eq=False)
class Passed:
    """A value that no loop reads: it is taken from its column once the remaining rows are known."""

    column: str
    is_text: bool
    may_be_null: bool = False


@dataclass(frozen=True, eq=False)
class Drawn:
    """A text at some position of a table of texts."""

    table: Argument
    at: Number
    may_be_null: bool = False


@dataclass(frozen=True, eq=False)
class Fixed:
    """The same text in every row."""

    text: str


Value = Number | Passed | Drawn | Fixed


class RowCode:
    """Variables and arrays, each created once."""

    def __init__(self, nullable: Collection[str] = ()) -> None:
        """Nothing is computed yet; `nullable` are the columns that have nulls."""
        self._nullable = frozenset(nullable)
        self.arguments: dict[Any, Argument] = {}
        self.functions: dict[str, Callable[..., Any]] = {}
        self._numbers: dict[tuple[str, Dtype], Number] = {}

    def column(self, name: str, type_: str) -> Value:
        """A column of the block."""
        if type_ not in DTYPES:
            return Passed(name, type_ == "string", name in self._nullable)
        key, dtype = ("column", name), DTYPES[type_]
        array = self._argument(key, lambda short: Argument(short, "column", dtype, name))
        number = self.number(f"{array.name}[i]", dtype, column=name)
        if name not in self._nullable:
            return number
        there = self._argument(("valid", name), lambda short: Argument(short, "valid", BOOL, name))
        return replace(number, valid=self.number(f"{there.name}[i]", BOOL))

    def number(self, text: str, dtype: Dtype, *needs: Number, column: str = "") -> Number:
        """A variable computed from others."""
        if (text, dtype) not in self._numbers:
            self._numbers[text, dtype] = Number(f"v{len(self._numbers)}", dtype, text, needs, column)
        return self._numbers[text, dtype]

    def valid_if(self, *valid: Number | None) -> Number | None:
        """Whether several numbers are valid; None if they always are."""
        some = [each for each in dict.fromkeys(valid) if each is not None]
        if len(some) < 2:
            return some[0] if some else None
        return self.number(" & ".join(each.name for each in some), BOOL, *some)

    def otherwise(self, number: Number, other: str) -> Number:
        """A number, or another one where it is null; never null."""
        valid = number.valid
        if valid is None:
            return number
        return self.number(f"{number.name} if {valid.name} else {other}", number.dtype, number, valid)

    def holding(self, condition: Number) -> Number:
        """Whether a condition is true, neither false nor null."""
        valid = condition.valid
        if valid is None:
            return condition
        return self.number(f"{condition.name} & {valid.name}", BOOL, condition, valid)

    def cleaned(self, number: Number) -> Number:
        """A number that is 0 where it is null, as columns are that have nulls."""
        if number.valid is None or number.column:
            return number
        return replace(self.otherwise(number, repr(number.dtype.type(0).item())), valid=number.valid)

    def constant(self, value: Any) -> Number:
        """A number that is always the same."""
        text = repr(value)
        if isinstance(value, float) and not np.isfinite(value):
            text = f"np.{text}" if value != -np.inf else "(-np.inf)"
        elif text.startswith("-"):
            text = f"({text})"
        return Number(text, np.dtype(type(value)), constant=value)

    def computed(self, left: Number, sign: str, right: Number) -> Number:
        """Sum, difference or product of two numbers of one type; integers wrap around, which only unsigned ones may."""
        if left.dtype != INT:
            return self.number(f"{left.name} {sign} {right.name}", left.dtype, left, right)
        left, right = self.cast(left, BITS), self.cast(right, BITS)
        return self.cast(self.number(f"{left.name} {sign} {right.name}", BITS, left, right), INT)

    def held(self, number: Number) -> Number:
        """A number as a variable, so that no constant is computed with Python's unbounded integers."""
        if number.constant is None:
            return number
        return self.number(f"np.{number.dtype.name}({number.name})", number.dtype)

    def cast(self, number: Number, dtype: Dtype) -> Number:
        """A number as another type, as NumPy turns one into the other."""
        if number.dtype == dtype:
            return number
        if number.constant is not None and number.dtype != FLOAT and dtype != BITS:
            return self.constant(dtype.type(number.constant).item())
        number = self.held(number)
        if number.dtype == FLOAT and dtype == INT:
            return self._truncated(number)
        if number.dtype == BOOL and dtype != INT:
            number = self.cast(number, INT)
        return self.number(f"np.{dtype.name}({number.name})", dtype, number)

    def _truncated(self, number: Number) -> Number:
        """A float without its fraction; NaN and values out of range become what NumPy makes of them here."""
        with np.errstate(invalid="ignore"):
            nan, above, below = np.array([np.nan, np.inf, -np.inf]).astype(np.int64).tolist()
        x = number.name
        other = f"({nan} if {x} != {x} else ({above} if {x} > 0.0 else ({below})))"
        if nan == above == below:
            other = f"({nan})"
        return self.number(f"np.int64({x}) if ({x} >= {-_TOO_LARGE}) & ({x} < {_TOO_LARGE}) else {other}", INT, number)

    def call(self, function: Callable[..., Any], dtype: Dtype, *arguments: Number | Argument) -> Number:
        """A function of `scalars`, whose text goes along with the loop's."""
        self.functions[function.__name__] = function
        needs = [argument for argument in arguments if isinstance(argument, Number)]
        return self.number(f"{function.__name__}({', '.join(each.name for each in arguments)})", dtype, *needs)

    def table(self, values: NDArray[Any]) -> Argument:
        """An array that never changes."""
        return self._argument(len(self.arguments), lambda short: Argument(short, "table", values.dtype, table=values))

    def by_key(self, number: Number, keys: Iterable[Any], look_up: Callable[[NDArray[Any]], Any], other: Any) -> Number:
        """What `look_up` gives for a key, from a table of all keys; `other` for numbers that are not a key."""
        number, wanted = self.held(number), np.array(sorted(keys), number.dtype)
        if number.dtype == INT and wanted.size and int(wanted[-1]) - int(wanted[0]) < DENSE_TABLE:
            slots = wanted[0] + np.arange(int(wanted[-1]) - int(wanted[0]) + 1)
            away = self.computed(number, "-", self.constant(int(wanted[0])))
        else:
            slots = wanted
            away = self.call(found, INT, self.table(wanted), number)
        values = self.table(np.ascontiguousarray(look_up(slots)))
        at, missing = self.cast(away, BITS), self.constant(other).name
        inside = f"{at.name} < np.uint64({values.name}.size)"
        return self.number(f"{values.name}[{at.name}] if {inside} else {missing}", values.dtype, at)

    def at(self, values: Column, position: Number) -> Number | Drawn:
        """The value at a position of a constant table."""
        if isinstance(values, pa.Array):
            return Drawn(Argument("", "table", TEXT, table=values), position, bool(values.null_count))
        position = self.cast(position, BITS)
        numbers = values_of(values)
        number = self.number(f"{self.table(numbers).name}[{position.name}]", numbers.dtype, position)
        if not isinstance(values, Nullable):
            return number
        return replace(number, valid=self.number(f"{self.table(values.valid).name}[{position.name}]", BOOL, position))

    def by_entry(
        self, value: Passed | Drawn, make: Callable[[pa.Array], Column], key: str, *, may_be_null: bool = False
    ) -> Number | Drawn:
        """What `make` gives for a text, computed once per entry of the table that the text comes from."""
        given = make(pa.array([], pa.string()))
        dtype = given.dtype if isinstance(given, np.ndarray) else TEXT
        if dtype not in (INT, FLOAT, BOOL, BITS, TEXT):
            raise FusionError(f"entries of type {dtype} are left to columns")
        at = self._entry(value)
        if dtype == TEXT:
            return Drawn(self._entries(value, make, TEXT, key), at, may_be_null)
        if not may_be_null:
            return self.number(f"{self._entries(value, make, dtype, key).name}[{at.name}]", dtype, at)
        numbers = self._entries(value, lambda texts: values_of(make(texts)), dtype, key)
        there = self._entries(value, lambda texts: present(make(texts)), BOOL, f"valid {key}")
        valid = self.number(f"{there.name}[{at.name}]", BOOL, at)
        return replace(self.number(f"{numbers.name}[{at.name}]", dtype, at), valid=valid)

    def _entry(self, value: Passed | Drawn) -> Number:
        """The number of a text's entry."""
        if isinstance(value, Drawn):
            return value.at
        column, nullable = value.column, value.may_be_null
        codes = self._argument(
            ("codes", column), lambda short: Argument(short, "codes", CODE, column, nullable=nullable)
        )
        return self.number(f"np.uint64({codes.name}[i])", BITS)

    def _entries(self, value: Passed | Drawn, make: Callable[[pa.Array], Column], dtype: Dtype, key: str) -> Argument:
        """What a function gives for every entry."""
        if isinstance(value, Passed):
            column, nullable, of = value.column, value.may_be_null, make
            return self._argument(
                ("of texts", column, key),
                lambda short: Argument(short, "entries", dtype, column, of, nullable=nullable),
            )
        before = value.table
        whole = ("of texts", before, key)
        if before.kind == "table":
            return self._argument(whole, lambda short: Argument(short, "table", dtype, table=make(before.table)))
        inner = before.make
        assert inner is not None
        return self._argument(
            whole,
            lambda short: Argument(
                short, "entries", dtype, before.column, lambda texts: make(inner(texts)), nullable=before.nullable
            ),
        )

    def position(self, value: Value, keys: Sequence[Any], index: Index) -> Number:
        """Position of a value among some keys, or -1, also for null."""
        if not keys:
            return self.constant(-1)
        if isinstance(value, Number) and value.dtype == INT and all(type(key) is int for key in keys):
            return self.otherwise(replace(self.by_key(value, keys, index.positions, -1), valid=value.valid), "-1")
        if isinstance(value, Drawn) or (isinstance(value, Passed) and value.is_text):
            position = self.by_entry(value, index.positions, f"position {keys!r}")
            if isinstance(position, Number):
                return position
        raise FusionError("a value that is neither an integer nor a text of a column is looked up among columns only")

    def _argument(self, key: Any, make: Callable[[str], Argument]) -> Argument:
        if key not in self.arguments:
            self.arguments[key] = make(f"a{len(self.arguments)}")
        return self.arguments[key]
