"""What every kernel with state does: logic is constant, state is an argument.

A kernel lifts blocks into tables where they are read, brings the tables to its state where it is bound, and answers
as the watermark goes on. State can be taken apart into fragments and put together again between any two blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.block import Block, Column
from shoal.kernels.table import INSTANCE, Ints, RowTable, Tables, concat_rows
from shoal.model.fragment import Fragment, FragmentId
from shoal.model.schema import TIME

NEVER_US = -(1 << 62)
"""Watermark before the first event."""
FOREVER_US = 1 << 62
"""Watermark after the last event: it closes every window."""


class Kernel(Protocol):
    """A kernel as lanes run it."""

    @property
    def hold_us(self) -> int:
        """How far the times of answers may lie behind the watermark."""

    def reads(self, port: int) -> frozenset[str]:
        """Columns of an input that the kernel looks at."""

    def keys(self, port: int) -> tuple[str, ...]:
        """Columns of an input by which state is told apart within an instance; none where an instance is one key.

        A key that is constant within every instance is left out. Every input has as many, in the same order.
        """

    def table_keys(self, number: int, table: Any) -> list[Column]:
        """The key columns of the rows of state table `number`, in the order of `keys`.

        A row of state has the key of the input rows that it came from, in whichever table it lies.
        """

    def late(self, port: int, block: Block, watermark_us: int) -> NDArray[np.bool_]:
        """Which rows come too late to be counted."""

    def lift(self, port: int, block: Block) -> Tables:
        """A block in the form that travels: partial aggregates, or rows."""

    def gathered(self, tables: Sequence[Tables]) -> Tables:
        """Several tables as one, merged where that makes them smaller."""

    def together(self, tables: Sequence[Tables]) -> Tables:
        """Several tables one under another, as they are: the state of other instances, or what `advance` will merge."""

    def due(self, before_us: int, after_us: int) -> bool:
        """Whether what has come may be answered, or forgotten, when the watermark goes from one time to another."""

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:
        """The state after what has come and after the watermark went on, and the answers, with instance and time."""


@dataclass
class State:
    """The state of one or many instances, how far event time has been closed, and answers not yet asked for."""

    tables: Tables = field(default_factory=dict)
    watermark_us: int = NEVER_US
    answers: list[Block] = field(default_factory=list)


class RowKernel(ABC):
    """The part that kernels over rows have in common: rows travel as they are, and every row is a fragment."""

    columns: Sequence[tuple[str, ...]]
    """Per input, the columns kept of it."""
    times: Sequence[str]
    """Per input, the column that holds event time."""
    hold_us: int = 0

    @abstractmethod
    def keys(self, port: int) -> tuple[str, ...]:
        """Columns of an input by which state is told apart within an instance."""

    def table_keys(self, number: int, table: RowTable) -> list[Column]:  # noqa: ARG002  (a kernel may know better)
        """The key columns of the rows of a table: every table holds them under the names they have in the input."""
        return [table[name] for name in self.keys(0)]

    @abstractmethod
    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:
        """The state after what has come and after the watermark went on, and the answers."""

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

    def gathered(self, tables: Sequence[Tables]) -> Tables:
        """Tables of each number one under another."""
        return gathered_rows(tables)

    def together(self, tables: Sequence[Tables]) -> Tables:
        """Tables of each number one under another."""
        return gathered_rows(tables)

    def due(self, before_us: int, after_us: int) -> bool:  # noqa: ARG002  (a kernel may know better)
        """Any row may be answered at any time."""
        return True

    def open(self) -> State:
        """The state before any event."""
        return State()

    def process(self, state: State, block: Block, port: int = 0) -> Block:
        """Take events in; returns those that came too late."""
        late = self.late(port, block, state.watermark_us)
        fresh = self.lift(port, block.where(~late))
        self._advance(state, fresh, state.watermark_us)
        return block.take(np.flatnonzero(late))

    def close_until(self, state: State, watermark_us: int) -> Block:
        """All answers that have become certain, each given once."""
        self._advance(state, {}, max(state.watermark_us, watermark_us))
        answers, state.answers = concat_blocks(state.answers), []
        return answers

    def fragments(self, state: State) -> list[Fragment]:
        """One fragment per row of state, due when the kernel says."""
        found = []
        for number, table in state.tables.items():
            row_bytes = table.nbytes // max(1, len(table))
            deadlines = self.deadlines_us(number, table)
            for row, instance in enumerate(table.instance.tolist()):
                deadline = None if deadlines is None else int(deadlines[row])
                found.append(Fragment(FragmentId(f"{number}/{row}"), instance, row_bytes, deadline, 1.0))
        return found

    def extract(self, state: State, fragments: Iterable[FragmentId]) -> Tables:
        """Take fragments out of a state."""
        wanted = set(fragments)
        taken: Tables = {}
        for number, table in list(state.tables.items()):
            chosen = np.array([f"{number}/{row}" in wanted for row in range(len(table))], bool)
            taken[number] = table.where(chosen)
            state.tables[number] = table.where(~chosen)
        state.tables = kept(state.tables)
        return kept(taken)

    def absorb(self, state: State, fragments: Tables) -> None:
        """Put fragments into a state."""
        state.tables = self.gathered([state.tables, fragments])

    def deadlines_us(self, number: int, table: RowTable) -> Ints | None:  # noqa: ARG002  (a kernel may know better)
        """When each row of a table is needed at the latest; None where there is no such time."""
        return None

    def _times(self, port: int, block: Block) -> Ints:
        times: Ints = block.columns[TIME] if TIME in block.columns else block.columns[self.times[port]]
        return times

    def _advance(self, state: State, fresh: Tables, watermark_us: int) -> None:
        state.tables, answers = self.advance(state.tables, fresh, state.watermark_us, watermark_us)
        state.watermark_us = watermark_us
        if answers.length:
            state.answers.append(answers)


class WholeRowKernel(RowKernel):
    """A kernel of one input that keeps its rows with all their columns, which also decide the order of ties."""

    key_names: tuple[str, ...]
    names: tuple[str, ...]
    time: str

    def keys(self, port: int) -> tuple[str, ...]:  # noqa: ARG002
        """The keys."""
        return self.key_names

    @property
    def columns(self) -> Sequence[tuple[str, ...]]:  # type: ignore[override]
        """All columns."""
        return (self.names,)

    @property
    def times(self) -> Sequence[str]:  # type: ignore[override]
        """Where event time is."""
        return (self.time,)


def gathered_rows(tables: Sequence[Tables]) -> Tables:
    """Row tables of each number one under another."""
    numbers = sorted({number for each in tables for number in each})
    together = {number: concat_rows([each[number] for each in tables if number in each]) for number in numbers}
    return {number: table for number, table in together.items() if table is not None}


def kept(tables: Mapping[int, RowTable | None]) -> Tables:
    """The tables that have rows."""
    return {number: table for number, table in tables.items() if table is not None and len(table)}


def concat_blocks(blocks: Sequence[Block]) -> Block:
    """Blocks of the same columns one after another."""
    if not blocks:
        return Block({INSTANCE: np.zeros(0, np.int64), TIME: np.zeros(0, np.int64)}, 0)
    if len(blocks) == 1:
        return blocks[0]
    table = concat_rows([RowTable(block.columns) for block in blocks])
    return blocks[0] if table is None else table.block


NOTHING = Block({INSTANCE: np.zeros(0, np.int64), TIME: np.zeros(0, np.int64)}, 0)
"""No answers."""
