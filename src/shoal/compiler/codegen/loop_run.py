"""Runs of a compiled loop: arrays for its arguments, buffers for what it writes, and columns made of that."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.compiler.codegen.generated import function_of
from shoal.compiler.codegen.row_code import CODE, Argument, Drawn, Fixed, Number, Passed, Value
from shoal.compiler.codegen.row_loop import Loop
from shoal.kernels.columns.block import Block, Column, encoded, take
from shoal.kernels.columns.nullable import NULL_CODE, Nullable, Valid, text_codes, valid_of, values_of
from shoal.kernels.expression.evaluate import repeated

LASTING_ROWS = 16_384
"""Results of blocks with so many rows are not overwritten, so that they can be passed on without a copy."""


class LoopRun:
    """A compiled loop that is applied to one block after another.

    A result lasts until the next one is made, that of a block of `LASTING_ROWS` or more for good.
    """

    def __init__(self, loop: Loop) -> None:
        """Compile the loop, or load it."""
        self.loop = loop
        self._function: Callable[..., int] = function_of(loop.code)
        self._buffers: list[NDArray[Any]] = []
        self._all_valid: Valid = np.ones(0, bool)
        self._texts: dict[str, pa.DictionaryArray] = {}
        self._tables: dict[str, tuple[pa.Array, dict[str, Column]]] = {}

    def apply(self, block: Block) -> Block:
        """The block after the loop's steps; it has rows, and columns of the types that the loop was written for."""
        loop = self.loop
        self._texts = {}
        arrays = [self._array(argument, block) for argument in loop.arguments]
        buffers = self._buffers_for(block.length * loop.most)
        length = self._function(block.length, *arrays, *buffers)
        made = [array[:length] for array in buffers]
        if block.length >= LASTING_ROWS:
            made = self._given_away(made)
        same_rows = loop.same_rows or (loop.most == 1 and length == block.length)
        rows = made.pop() if loop.writes_rows else np.empty(0, np.int64)
        numbers = {id(number): array for number, array in zip(loop.written, made, strict=True)}

        def column(value: Value) -> Column:
            match value:
                case Number(column=name) | Passed(name) if name and same_rows:
                    return block.columns[name]
                case Number(valid=None):
                    return numbers[id(value)]
                case Number(valid=valid):
                    return _with_nulls(numbers[id(value)], numbers[id(valid)])
                case Passed(name):
                    return take(block.columns[name], rows)
                case Drawn(table, at):
                    return take(self._table(table, block), numbers[id(at)])
                case Fixed(text):
                    return repeated(text, length)

        return Block({name: column(value) for name, value in loop.columns.items()}, length)

    def _buffers_for(self, rows: int) -> list[NDArray[Any]]:
        """Output buffers, allocated once: new memory costs more than writing to it."""
        if not self._buffers or self._buffers[0].size < rows:
            self._buffers = [np.empty(rows, dtype) for dtype in self.loop.dtypes]
        return self._buffers

    def _given_away(self, made: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """What was written, in memory that is not written again: the buffers themselves if they are well filled."""
        if made and 2 * made[0].size < self._buffers[0].size:
            return [array.copy() for array in made]
        self._buffers = []
        return made

    def _array(self, argument: Argument, block: Block) -> NDArray[Any]:
        """What the function gets for an argument."""
        if argument.kind == "column":
            column: NDArray[Any] = values_of(block.columns[argument.column])
        elif argument.kind == "valid":
            column = self._valid(block.columns[argument.column], block.length)
        elif argument.kind == "codes":
            column = self._codes(argument, block)
        else:
            column = self._table(argument, block)
        return column if column.flags.c_contiguous and column.flags.aligned else np.array(column)

    def _valid(self, column: Column, length: int) -> Valid:
        valid = valid_of(column)
        if valid is not None:
            return valid
        if self._all_valid.size < length:
            self._all_valid = np.ones(length, bool)
        return self._all_valid

    def _codes(self, argument: Argument, block: Block) -> NDArray[Any]:
        """The entries of texts; null is the entry behind the others."""
        texts = self._encoded(argument.column, block)
        codes = text_codes(texts)
        if texts.null_count:
            codes = np.where(codes == NULL_CODE, len(texts.dictionary), codes)
        return codes.astype(CODE, copy=False)

    def _table(self, argument: Argument, block: Block) -> Column:
        """A constant table, or one computed from the dictionary of a text column, until that changes."""
        if argument.make is None:
            return argument.table
        entries = self._encoded(argument.column, block).dictionary
        before, tables = self._tables.get(argument.column, (None, {}))
        if before is None or not before.equals(entries):
            tables = {}
            self._tables[argument.column] = entries, tables
        if argument.name not in tables:
            null = [pa.nulls(1, entries.type)] if argument.nullable else []
            tables[argument.name] = argument.make(pa.concat_arrays([entries, *null]) if null else entries)
        return tables[argument.name]

    def _encoded(self, name: str, block: Block) -> pa.DictionaryArray:
        """The texts of a column with their dictionary, made once per block."""
        if name not in self._texts:
            self._texts[name] = encoded(block.columns[name])
        return self._texts[name]


def _with_nulls(values: NDArray[Any], valid: Valid) -> Column:
    """Values of which some are null, and 0 there."""
    return values if valid.all() else Nullable(values, valid)
