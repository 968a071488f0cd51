"""Nullable columns: numbers of which some are null.

A column without nulls is a plain NumPy array and costs nothing more than that; only a column that has a null is a
`Nullable`. Texts and lists are Arrow arrays, which know their nulls themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.model.query.schema import FieldType

Valid = NDArray[np.bool_]
"""Which rows of a column have a value."""
DTYPES = {"int64": np.int64, "timestamp": np.int64, "float64": np.float64, "bool": np.bool_}
"""Types of the arrays that hold the numbers of each type of column."""
NULL_CODE = -1
"""Stands for a null among the codes of texts."""


@dataclass(frozen=True, eq=False)
class Nullable:
    """Numbers of which some are null: where `valid` is false, the value is 0 and means nothing."""

    values: NDArray[Any]
    valid: Valid

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.values)

    def __getitem__(self, rows: Any) -> "NDArray[Any] | Nullable":
        """A slice, or the rows of an index or mask: a plain array if none of them is null."""
        return nullable(self.values[rows], self.valid[rows])

    @property
    def nbytes(self) -> int:
        """Memory that values and validity take."""
        return int(self.values.nbytes + self.valid.nbytes)

    def owned(self) -> "Nullable":
        """The column without views of memory that others may overwrite."""
        return Nullable(
            self.values if self.values.base is None else self.values.copy(),
            self.valid if self.valid.base is None else self.valid.copy(),
        )

    def to_pylist(self) -> list[Any]:
        """The values, None for null."""
        pairs = zip(self.values.tolist(), self.valid.tolist(), strict=True)
        return [value if is_there else None for value, is_there in pairs]

    def to_arrow(self) -> pa.Array:
        """The column as Arrow."""
        return pa.array(self.values, mask=~self.valid)


def nullable(values: NDArray[Any], valid: Valid | None) -> NDArray[Any] | Nullable:
    """Values of which some are null: a plain array if none is.

    >>> nullable(np.array([1, 2]), np.array([True, True])).tolist()
    [1, 2]
    >>> nullable(np.array([1, 2]), np.array([True, False])).to_pylist()
    [1, None]
    """
    if valid is None or valid.all():
        return values
    return Nullable(np.where(valid, values, values.dtype.type(0)), valid)


def all_null(type_: FieldType, length: int) -> Any:
    """A column of a type in which every row is null."""
    if type_ == "string":
        return pa.nulls(length, pa.string())
    if type_ not in DTYPES:
        return pa.nulls(length, pa.list_(pa.int64() if type_ == "list<int64>" else pa.float64()))
    return nullable(np.zeros(length, DTYPES[type_]), np.zeros(length, bool))


def valid_of(column: Any) -> Valid | None:
    """Which rows have a value; None if all have."""
    if isinstance(column, np.ndarray):
        return None
    if isinstance(column, Nullable):
        return column.valid
    if not column.null_count:
        return None
    valid: Valid = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def present(column: Any) -> Valid:
    """Which rows have a value, as an array also if all have."""
    valid = valid_of(column)
    return np.ones(len(column), bool) if valid is None else valid


def values_of(column: Any) -> Any:
    """The column with something in place of its nulls: 0 among numbers, an empty text among texts."""
    if isinstance(column, Nullable):
        return column.values
    if isinstance(column, np.ndarray) or not column.null_count:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_list(column.type):
        return pa.array([value or [] for value in column.to_pylist()], column.type)
    return pc.fill_null(column, "")


def both_valid(first: Valid | None, second: Valid | None) -> Valid | None:
    """Which rows have both of two values."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def concat_nullable(columns: Sequence[Any]) -> Nullable:
    """Concatenate columns of numbers, some of which have nulls."""
    return Nullable(
        np.concatenate([values_of(each) for each in columns]), np.concatenate([present(each) for each in columns])
    )


def text_codes(texts: pa.DictionaryArray) -> NDArray[np.int64]:
    """The dictionary entry of every text, `NULL_CODE` for null.

    >>> text_codes(pa.array(["b", None, "b"]).dictionary_encode()).tolist()
    [0, -1, 0]
    """
    codes = texts.indices
    if codes.null_count:
        codes = pc.fill_null(codes, NULL_CODE)
    numbers: NDArray[np.int64] = codes.to_numpy(zero_copy_only=False)
    return numbers


def entry_values(of_entry: NDArray[Any], texts: pa.DictionaryArray, null: Any) -> NDArray[Any]:
    """What belongs to every text, given for the entries of its dictionary; `null` belongs to nulls."""
    codes = text_codes(texts)
    if not texts.indices.null_count:
        return of_entry[codes]
    return np.append(of_entry, np.asarray([null], of_entry.dtype))[codes]
