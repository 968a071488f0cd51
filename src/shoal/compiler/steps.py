"""Steps: compiled stateless operators, each a function from block to block with a canonical text."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.columns.block import ARROW_TYPES, Block, Column, as_column, encoded, take
from shoal.kernels.columns.index import Index
from shoal.kernels.columns.nullable import Nullable, entry_values
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.expression.evaluate import evaluate, holds
from shoal.language.python.flow import WINDOW_END, WINDOW_START
from shoal.language.python.join import HAS_RIGHT
from shoal.model.query.expression import Column as ColumnOf
from shoal.model.query.expression import Expression
from shoal.model.query.schema import TIME, FieldType
from shoal.model.query.window import Window

MIX = np.uint64(0x9E3779B97F4A7C15)
"""Multiplier of hashes."""
NULL_BITS = np.uint64(0xD6E8FEB86659FD93)
"""The hash of null."""


class Step(Protocol):
    """A stateless function from block to block; equal texts mean equal functions, which are applied once."""

    @property
    def text(self) -> str:
        """Canonical text."""

    def apply(self, block: Block) -> Block:
        """The block after the step; called for every block, which must not be changed."""

    def reads(self) -> frozenset[str]:
        """Columns the step reads; called when a program is compiled, to find out what a source must deliver."""


@dataclass(frozen=True)
class Filter:
    """Keep the rows for which a condition holds."""

    condition: Expression

    @cached_property
    def text(self) -> str:
        """Canonical text."""
        return f"filter {self.condition.text}"

    def apply(self, block: Block) -> Block:
        """The rows that pass."""
        return block.where(holds(self.condition, block))

    def reads(self) -> frozenset[str]:
        """The condition's columns."""
        return frozenset(self.condition.columns())


@dataclass(frozen=True)
class Select:
    """Compute columns; an instance number that a dispatch has attached stays."""

    columns: tuple[tuple[str, Expression], ...]

    @cached_property
    def text(self) -> str:
        """Canonical text."""
        return "select " + ",".join(f"{name}={expression.text}" for name, expression in self.columns)

    @property
    def only_drops(self) -> bool:
        """Whether the step only drops columns."""
        return all(isinstance(e, ColumnOf) and e.name == name for name, e in self.columns)

    def apply(self, block: Block) -> Block:
        """The computed columns."""
        columns = {name: evaluate(expression, block) for name, expression in self.columns}
        columns |= {name: block.columns[name] for name in (INSTANCE, TIME) if name in block.columns}
        return Block(columns, block.length)

    def reads(self) -> frozenset[str]:
        """The expressions' columns."""
        return frozenset(name for _, expression in self.columns for name in expression.columns())


@dataclass(frozen=True)
class Attach:
    """Add the columns of a static table by key; rows without a match are dropped, or get the defaults.

    A key that is null has no match. A default of None is null.
    """

    column: str
    keys: tuple[Any, ...]
    columns: tuple[tuple[str, FieldType, tuple[Any, ...]], ...]
    defaults: tuple[tuple[str, Any], ...] | None

    @cached_property
    def text(self) -> str:
        """Canonical text."""
        return f"attach {self.column} {self.keys!r} {self.columns!r} {self.defaults!r}"

    @cached_property
    def index(self) -> Index:
        """Position of each key."""
        return Index(self.keys)

    @cached_property
    def values(self) -> Mapping[str, Column]:
        """The table's columns, each followed by its default if there are defaults; None is null."""
        if self.defaults is None:
            return {name: _column(values, type_) for name, type_, values in self.columns}
        defaults = dict(self.defaults)
        return {name: _column((*values, defaults.get(name)), type_) for name, type_, values in self.columns}

    def apply(self, block: Block) -> Block:
        """The rows with the table's columns."""
        rows = self.index.positions(block.columns[self.column])
        there = rows >= 0
        if self.defaults is None:
            block, rows = block.where(there), rows[there]
        else:
            rows = np.where(there, rows, len(self.keys))
        added = {name: take(values, rows) for name, values in self.values.items()}
        if self.defaults is not None:
            added[HAS_RIGHT] = there
        return Block({**block.columns, **added}, block.length)

    def reads(self) -> frozenset[str]:
        """The key."""
        return frozenset({self.column})


@dataclass(frozen=True)
class Assign:
    """Give each row the start and end of every window it belongs to, and the end as its event time."""

    window: Window
    time: str

    @cached_property
    def text(self) -> str:
        """Canonical text."""
        return f"assign {self.window} {self.time}"

    def apply(self, block: Block) -> Block:
        """One row per row and window."""
        window = self.window
        times = block.columns[TIME] if TIME in block.columns else block.columns[self.time]
        panes = np.empty(block.length, np.int64)
        loops.panes_of(times, window.slide_us, panes)
        rows = np.repeat(np.arange(block.length), window.panes)
        ends = (
            np.repeat(panes, window.panes) + np.tile(np.arange(1, window.panes + 1), block.length)
        ) * window.slide_us
        wide = block if window.panes == 1 else block.take(rows)
        added = {WINDOW_START: ends - window.size_us, WINDOW_END: ends, TIME: ends - 1}
        return Block({**wide.columns, **added}, rows.size)

    def reads(self) -> frozenset[str]:
        """Event time."""
        return frozenset({self.time})


@dataclass(frozen=True)
class Retime:
    """Use another column as event time."""

    column: str

    @cached_property
    def text(self) -> str:
        """Canonical text."""
        return f"retime {self.column}"

    def apply(self, block: Block) -> Block:
        """The same rows at other times."""
        return Block({**block.columns, TIME: block.columns[self.column]}, block.length)

    def reads(self) -> frozenset[str]:
        """The column taken."""
        return frozenset({self.column})


@dataclass(frozen=True)
class DispatchByOrigin:
    """Send the results of another lane's instances to the instances that read them."""

    target: tuple[int, ...]

    @cached_property
    def text(self) -> str:
        """Canonical text."""
        return f"origin {self.target!r}"

    def apply(self, block: Block) -> Block:
        """The rows some instance wants, with the instance's number."""
        instance = np.array(self.target, np.int64)[block.columns[INSTANCE]]
        return Block({**block.columns, INSTANCE: instance}, block.length).where(instance >= 0)

    def reads(self) -> frozenset[str]:
        """No column."""
        return frozenset()


@dataclass(frozen=True)
class DispatchByValue:
    """Send each row to the instance that selects its value: hundreds of `region == r` filters in one lookup."""

    column: str
    values: tuple[Any, ...]

    @cached_property
    def text(self) -> str:
        """Canonical text."""
        return f"dispatch {self.column} {self.values!r}"

    @cached_property
    def index(self) -> Index:
        """Position of each value."""
        return Index(self.values)

    def apply(self, block: Block) -> Block:
        """The rows some instance wants, with the instance's number."""
        instance = self.index.positions(block.columns[self.column])
        return Block({**block.columns, INSTANCE: instance}, block.length).where(instance >= 0)

    def reads(self) -> frozenset[str]:
        """The column dispatched on."""
        return frozenset({self.column})


@dataclass(frozen=True)
class DispatchByGroup:
    """Send each row to the instance of its key group; without columns everything goes to instance 0."""

    columns: tuple[str, ...]
    groups: int

    @cached_property
    def text(self) -> str:
        """Canonical text."""
        return f"groups {self.columns!r} {self.groups}"

    def apply(self, block: Block) -> Block:
        """All rows, with their instance's number."""
        instance = group_numbers([block.columns[name] for name in self.columns], block.length, self.groups)
        return Block({**block.columns, INSTANCE: instance}, block.length)

    def reads(self) -> frozenset[str]:
        """The partitioning columns."""
        return frozenset(self.columns)


def group_numbers(columns: Sequence[Column], length: int, groups: int) -> NDArray[np.int64]:
    """The key group of every row: an integer column alone by its value, others by a hash; null goes to the first."""
    if len(columns) == 1 and not isinstance(columns[0], pa.Array):
        column = columns[0].values if isinstance(columns[0], Nullable) else columns[0]
        return np.mod(column.astype(np.int64, copy=False), groups)
    return (mixed_bits(columns, length) % np.uint64(groups)).astype(np.int64)


def mixed_bits(columns: Sequence[Column], length: int) -> NDArray[np.uint64]:
    """A hash of some columns that is the same in every process."""
    mixed = np.zeros(length, np.uint64)
    for column in columns:
        mixed = (mixed ^ bits_of(column)) * MIX
        mixed ^= mixed >> np.uint64(32)
    return mixed


def _column(values: Sequence[Any], type_: FieldType) -> Column:
    """A column of plain values; None is null."""
    if type_ == "float64":
        values = [None if value is None else float(value) for value in values]
    return as_column(pa.array(values, ARROW_TYPES[type_]))


def bits_of(column: Column) -> NDArray[np.uint64]:
    """A number per value that is the same in every process."""
    if isinstance(column, pa.Array):
        texts = encoded(column)
        hashes = np.array([zlib.crc32(entry.encode()) for entry in texts.dictionary.to_pylist()] or [0], np.uint64)
        return entry_values(hashes, texts, NULL_BITS)
    if isinstance(column, Nullable):
        return np.where(column.valid, bits_of(column.values), NULL_BITS)
    return column.astype(np.int64).view(np.uint64)
