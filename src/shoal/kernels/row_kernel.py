"""The common part of kernels over rows: rows are sent unchanged and wait in tables."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column
from shoal.kernels.columns.table import INSTANCE, Ints, RowTable, Tables, concat_rows
from shoal.kernels.stateful_kernel import StatefulKernel
from shoal.model.query.schema import TIME


class RowKernel(StatefulKernel):
    """A kernel whose state is rows: they are sent unchanged, and every distinct row is a fragment."""

    columns: Sequence[tuple[str, ...]]
    """Per input, the columns that are kept."""
    times: Sequence[str]
    """Per input, the column that holds event time."""

    @abstractmethod
    def keys(self, port: int) -> tuple[str, ...]:
        """Columns of an input that partition state within an instance."""

    def table_keys(self, number: int, table: RowTable) -> list[Column]:  # noqa: ARG002  (for kernels to override)
        """The key columns of a table; every table has them under the names of the input."""
        return [table[name] for name in self.keys(0)]

    def identity(self, number: int, table: RowTable) -> list[Column]:
        """Time and all columns: rows that are equal in them are one fragment."""
        return [table[TIME], *(table[name] for name in self.columns[number])]

    def reads(self, port: int) -> frozenset[str]:
        """Columns of an input that the kernel reads."""
        return frozenset({*self.columns[port], self.times[port]})

    def late(self, port: int, block: Block, watermark_us: int) -> NDArray[np.bool_]:
        """Rows before the watermark: the order of rows, or their pairs, up to there are already decided."""
        late: NDArray[np.bool_] = self.row_times(port, block) < watermark_us
        return late

    def lift(self, port: int, block: Block) -> Tables:
        """The rows, with only the columns that are kept."""
        if not block.length:
            return {}
        columns = {name: block.columns[name] for name in self.columns[port]}
        return {port: RowTable({INSTANCE: block.columns[INSTANCE], TIME: self.row_times(port, block), **columns})}

    def merged(self, tables: Sequence[Tables]) -> Tables:
        """The tables of each number, concatenated."""
        return concatenated_rows(tables)

    def concatenated(self, tables: Sequence[Tables]) -> Tables:
        """The tables of each number, concatenated."""
        return concatenated_rows(tables)

    def due(self, before_us: int, after_us: int) -> bool:  # noqa: ARG002  (for kernels to override)
        """Any advance of the watermark may emit results."""
        return True

    def row_times(self, port: int, block: Block) -> Ints:
        times: Ints = block.columns[TIME] if TIME in block.columns else block.columns[self.times[port]]
        return times


class WholeRowKernel(RowKernel):
    """A kernel of one input that keeps all columns of its rows; they also break ties in the order of rows."""

    key_names: tuple[str, ...]
    names: tuple[str, ...]
    time: str

    def keys(self, port: int) -> tuple[str, ...]:  # noqa: ARG002
        """The keys."""
        return self.key_names

    def identity(self, number: int, table: RowTable) -> list[Column]:
        """All columns of a waiting row (table 0); the key in the other tables, which hold one row per key."""
        return super().identity(number, table) if number == 0 else self.table_keys(number, table)

    def input_rows(self, number: int, table: RowTable) -> int:
        """Waiting rows are input; the other tables hold what is known of each key."""
        return len(table) if number == 0 else 0

    @property
    def columns(self) -> Sequence[tuple[str, ...]]:  # type: ignore[override]
        """All columns."""
        return (self.names,)

    @property
    def times(self) -> Sequence[str]:  # type: ignore[override]
        """The column of event time."""
        return (self.time,)


def concatenated_rows(tables: Sequence[Tables]) -> Tables:
    """The row tables of each number, concatenated; numbers without rows are left out."""
    numbers = sorted({number for each in tables for number in each})
    tables_by_number = {number: concat_rows([each[number] for each in tables if number in each]) for number in numbers}
    return {number: table for number, table in tables_by_number.items() if table is not None}
