"""Steps: stateless operators in the form that runs, each a function from block to block with a canonical text."""

import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.aggregate import INSTANCE
from shoal.kernels.block import Block, Column, encoded
from shoal.kernels.evaluate import evaluate, positions
from shoal.model.expression import Column as ColumnOf
from shoal.model.expression import Expression

_MIX = np.uint64(0x9E3779B97F4A7C15)


class Step(Protocol):
    """A stateless function from block to block; equal texts mean equal functions."""

    @property
    def text(self) -> str:
        """Canonical text."""

    def apply(self, block: Block) -> Block:
        """The block after the step."""

    def reads(self) -> frozenset[str]:
        """Columns the step looks at."""


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
        return block.where(evaluate(self.condition, block))

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
        """Whether the step merely leaves columns out, which changes no row."""
        return all(isinstance(e, ColumnOf) and e.name == name for name, e in self.columns)

    def apply(self, block: Block) -> Block:
        """The computed columns."""
        columns = {name: evaluate(expression, block) for name, expression in self.columns}
        if INSTANCE in block.columns:
            columns[INSTANCE] = block.columns[INSTANCE]
        return Block(columns, block.length)

    def reads(self) -> frozenset[str]:
        """The expressions' columns."""
        return frozenset(name for _, expression in self.columns for name in expression.columns())


@dataclass(frozen=True)
class DispatchByValue:
    """Send each row to the instance that asked for its value: hundreds of `region == r` filters in one look-up."""

    column: str
    values: tuple[Any, ...]

    @cached_property
    def text(self) -> str:
        """Canonical text."""
        return f"dispatch {self.column} {self.values!r}"

    def apply(self, block: Block) -> Block:
        """The rows some instance wants, with the instance's number."""
        instance = positions(block.columns[self.column], list(self.values))
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
        if len(self.columns) == 1 and not isinstance(block.columns[self.columns[0]], pa.Array):
            instance = np.mod(block.columns[self.columns[0]].astype(np.int64, copy=False), self.groups)
        else:
            instance = self._hashed(block)
        return Block({**block.columns, INSTANCE: instance}, block.length)

    def reads(self) -> frozenset[str]:
        """The partitioning columns."""
        return frozenset(self.columns)

    def _hashed(self, block: Block) -> NDArray[np.int64]:
        mixed = np.zeros(block.length, np.uint64)
        for name in self.columns:
            mixed = (mixed ^ _bits(block.columns[name])) * _MIX
            mixed ^= mixed >> np.uint64(32)
        return (mixed % np.uint64(self.groups)).astype(np.int64)


def _bits(column: Column) -> NDArray[np.uint64]:
    """A number per value that is the same in every process."""
    if isinstance(column, pa.Array):
        texts = encoded(column)
        hashes = np.array([zlib.crc32(entry.encode()) for entry in texts.dictionary.to_pylist()] or [0], np.uint64)
        return hashes[texts.indices.to_numpy(zero_copy_only=False)]
    return column.astype(np.int64).view(np.uint64)
