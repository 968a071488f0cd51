"""The step that gives rows their cells: a point has one, a range one row for each cell that it overlaps."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shoal.compiler.steps import mixed_bits
from shoal.kernels.columns.block import Block, Column
from shoal.kernels.columns.nullable import Nullable
from shoal.kernels.columns.table import INSTANCE, Ints
from shoal.kernels.spatial.coverage import cells_of, covered
from shoal.kernels.spatial.shape_columns import coordinates, floats, shapes_of
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import Shape
from shoal.model.spatial.tiles import halvings, painted


@dataclass(frozen=True)
class Cover:
    """Add the column with the cell of each row; rows with a null or NaN coordinate lie nowhere and are dropped.

    So are points with an infinite longitude.
    """

    grid: Grid
    shape: Shape
    column: str
    copies: int = 0
    """With copies, a range has so many cells, whatever it overlaps, and a point one of them by its coordinates."""

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> "Cover":
        """The step of an operator's parameters."""
        grid, shape = Grid.from_data(parameters["grid"]), Shape.from_data(parameters["shape"])
        return cls(grid, shape, parameters["column"], parameters.get("copies", 0))

    @cached_property
    def text(self) -> str:
        """Canonical text."""
        return f"cover {self.grid} {self.shape} {self.column} {self.copies}"

    def apply(self, block: Block) -> Block:
        """The rows with their cells."""
        block = block.where(self._located(block))
        values = [block.columns[name] for name in self.shape.columns]
        if self.copies:
            return self._copied(block, values)
        if self.shape.kind == "point":
            x, y = self.shape.columns
            cells = cells_of(self.grid, *coordinates(self.grid, (x, y), block.columns))
            return Block({**block.columns, self.column: cells}, block.length)
        rows, cells = covered(self.grid, shapes_of(self.grid, self.shape, values).box)
        once = rows.size == block.length and bool((rows == np.arange(rows.size)).all())
        wide = block if once else block.take(rows)
        return Block({**wide.columns, self.column: cells}, rows.size)

    def _copied(self, block: Block, values: list[Column]) -> Block:
        """Points spread over the copies, or ranges in all of them."""
        if self.shape.kind == "point":
            # by all bits of the coordinates: whole degrees would keep a crowd together
            mixed = mixed_bits([floats(value).view(np.int64) for value in values], block.length)
            spread = ((mixed >> np.uint64(33)) % np.uint64(self.copies)).astype(np.int64)
            return Block({**block.columns, self.column: spread}, block.length)
        wide = block.take(np.repeat(np.arange(block.length), self.copies))
        return Block({**wide.columns, self.column: np.tile(np.arange(self.copies), block.length)}, wide.length)

    def reads(self) -> frozenset[str]:
        """The columns of the shape."""
        return frozenset(self.shape.columns)

    def _located(self, block: Block) -> np.ndarray[Any, np.dtype[np.bool_]]:
        there = np.ones(block.length, bool)
        for name in self.shape.columns:
            there &= _present(block.columns[name])
        if self.shape.kind == "point" and self.grid.units == "degrees":
            there &= np.isfinite(floats(block.columns[self.shape.columns[0]]))
        return there


@dataclass(frozen=True)
class DispatchByCell:
    """Send each row to the instance whose declared rectangle has its cell."""

    column: str
    grid: tuple[int, int]
    groups: int

    @cached_property
    def text(self) -> str:
        """Canonical text."""
        return f"cells {self.column!r} {self.grid} {self.groups}"

    @cached_property
    def numbers(self) -> Ints:
        """The declared instance of every cell."""
        return painted(*self.grid, dict(enumerate(halvings(*self.grid, self.groups))))

    def apply(self, block: Block) -> Block:
        """All rows, with their instance's number."""
        return Block({**block.columns, INSTANCE: self.numbers[block.columns[self.column]]}, block.length)

    def reads(self) -> frozenset[str]:
        """The column of the cell."""
        return frozenset({self.column})


def _present(column: Column) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which values are neither null nor NaN."""
    if isinstance(column, Nullable):
        return column.valid & ~_is_nan(column.values)
    if isinstance(column, np.ndarray):
        return ~_is_nan(column)
    return np.asarray(column.is_valid())


def _is_nan(values: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.size, bool)
