"""What kernels over rows have in common: rows travel as they are, and wait in tables."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column
from shoal.kernels.columns.table import INSTANCE, Ints, RowTable, Tables, concat_rows
from shoal.kernels.kernel import StatefulKernel
from shoal.model.query.schema import TIME


class RowKernel(StatefulKernel):
    """The part that kernels over rows have in common: rows travel as they are, and every row is a fragment."""

    columns: Sequence[tuple[str, ...]]
    """Per input, the columns kept of it."""
    times: Sequence[str]
    """Per input, the column that holds event time."""

    @abstractmethod
    def keys(self, port: int) -> tuple[str, ...]:
        """Columns of an input by which state is told apart within an instance."""

    def table_keys(self, number: int, table: RowTable) -> list[Column]:  # noqa: ARG002  (a kernel may know better)
        """The key columns of the rows of a table: every table holds them under the names they have in the input."""
        return [table[name] for name in self.keys(0)]

    def identity(self, number: int, table: RowTable) -> list[Column]:
        """Time and all columns: rows that are equal in them are one fragment."""
        return [table[TIME], *(table[name] for name in self.columns[number])]

    def reads(self, port: int) -> frozenset[str]:
        """Columns of an input that the kernel looks at."""
        return frozenset({*self.columns[port], self.times[port]})

    def late(self, port: int, block: Block, watermark_us: int) -> NDArray[np.bool_]:
        """Rows before the watermark: their order, or what they would meet, has been decided."""
        late: NDArray[np.bool_] = self._times(port, block) < watermark_us
        return late

    def lift(self, port: int, block: Block) -> Tables:
        """The rows with the columns that are needed."""
        if not block.length:
            return {}
        columns = {name: block.columns[name] for name in self.columns[port]}
        return {port: RowTable({INSTANCE: block.columns[INSTANCE], TIME: self._times(port, block), **columns})}

    def merged(self, tables: Sequence[Tables]) -> Tables:
        """Tables of each number one under another."""
        return concatenated_rows(tables)

    def concatenated(self, tables: Sequence[Tables]) -> Tables:
        """Tables of each number one under another."""
        return concatenated_rows(tables)

    def due(self, before_us: int, after_us: int) -> bool:  # noqa: ARG002  (a kernel may know better)
        """Any row may be answered at any time."""
        return True

    def _times(self, port: int, block: Block) -> Ints:
        times: Ints = block.columns[TIME] if TIME in block.columns else block.columns[self.times[port]]
        return times


class WholeRowKernel(RowKernel):
    """A kernel of one input that keeps its rows with all their columns, which also decide the order of ties."""

    key_names: tuple[str, ...]
    names: tuple[str, ...]
    time: str

    def keys(self, port: int) -> tuple[str, ...]:  # noqa: ARG002
        """The keys."""
        return self.key_names

    def identity(self, number: int, table: RowTable) -> list[Column]:
        """All of a row that waits, in table 0; other tables tell something of a key."""
        return super().identity(number, table) if number == 0 else self.table_keys(number, table)

    @property
    def columns(self) -> Sequence[tuple[str, ...]]:  # type: ignore[override]
        """All columns."""
        return (self.names,)

    @property
    def times(self) -> Sequence[str]:  # type: ignore[override]
        """Where event time is."""
        return (self.time,)


def concatenated_rows(tables: Sequence[Tables]) -> Tables:
    """Row tables of each number one under another."""
    numbers = sorted({number for each in tables for number in each})
    together = {number: concat_rows([each[number] for each in tables if number in each]) for number in numbers}
    return {number: table for number, table in together.items() if table is not None}
