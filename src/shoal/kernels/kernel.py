"""What every kernel with state does: logic is constant, state is an argument.

A kernel lifts blocks into tables where they are read, brings the tables to its state where it is bound, and answers
as the watermark goes on. State can be taken apart into fragments and put together again between any two blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column
from shoal.kernels.columns.identity import ids_of, listed
from shoal.kernels.columns.table import INSTANCE, Ints, RowTable, Tables, concat_rows
from shoal.model.control.fragment import NO_DEADLINE_US, Fragments, Ids
from shoal.model.query.expression import Expression
from shoal.model.query.schema import TIME

T = TypeVar("T")
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

    @property
    def late_reason(self) -> str:
        """What an operator did that made a row late, as in "has closed all windows of this row"."""

    def lift(self, port: int, block: Block) -> Tables:
        """A block in the form that travels: partial aggregates, or rows."""

    def lift_timely(self, port: int, block: Block, watermark_us: int, shared: "Shared") -> tuple[Tables, Block]:
        """Lift the rows of a block that are not late; returns also those that are.

        Called for every block where it is read. `shared` holds what other kernels have computed of the same block.
        """

    def with_condition(self, condition: Expression) -> Self:
        """The kernel that leaves out results which do not fulfil a condition, or itself where it cannot.

        Called while a program is built, if all readers of the results begin with this condition.
        """

    def merged(self, tables: Sequence[Tables]) -> Tables:
        """Several tables as one, merged where that makes them smaller."""

    def concatenated(self, tables: Sequence[Tables]) -> Tables:
        """Several tables one under another, as they are: the state of other instances, or what `advance` will merge."""

    def due(self, before_us: int, after_us: int) -> bool:
        """Whether what has come may be answered, or forgotten, when the watermark goes from one time to another."""

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:
        """The state after what has come and after the watermark went on, and the answers, with instance and time."""

    def open(self) -> "State":
        """The state before any event."""

    def process(self, state: "State", block: Block, port: int = 0) -> Block:
        """Take a block of an input into a state; returns the rows that came too late, which are not taken in."""

    def close_until(self, state: "State", watermark_us: int) -> Block:
        """Move the watermark of a state on, never back; returns the results not yet asked for, each once."""

    def identity(self, number: int, table: Any) -> list[Column]:
        """The columns that say, beside the instance, what a row of state table `number` is.

        They do not change while the row stays in the state, so that its fragment keeps its id. Rows that are equal in
        them are one fragment and always move together.
        """

    def fragments(self, state: "State") -> Fragments:
        """List all fragments of a state."""

    def extract(self, state: "State", ids: Ids) -> Tables:
        """Take the fragments with some ids out of a state; ids that it does not have are ignored.

        May be called between any two blocks. The other fragments keep their ids.
        """

    def absorb(self, state: "State", piece: Tables) -> None:
        """Put what was extracted, here or elsewhere, into a state, merged with what it has of the same fragments.

        Pieces may come in any order, and with others out. Results are those of an undisturbed run if all that a
        result depends on is back before it is decided: before the watermark moves on, and, where results are given as
        rows meet (a join), before the next block.
        """


@dataclass
class State:
    """The state of one or many instances: tables, the watermark, and results not yet asked for."""

    tables: Tables = field(default_factory=dict)
    watermark_us: int = NEVER_US
    results: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class Shared:
    """What has been computed of one block already, for all kernels that read it.

    `form`: what was done to the block before; blocks of one form are the same. `instances`: number of instances.
    """

    instances: int
    cache: dict[Any, Any] = field(default_factory=dict)
    form: tuple[str, ...] = ()

    def once(self, name: tuple[Any, ...], make: Callable[[], T]) -> T:
        """A value made for the first kernel that asks for it by name, and kept for the others."""
        key = (self.form, *name)
        if key not in self.cache:
            self.cache[key] = make()
        found: T = self.cache[key]
        return found


class StatefulKernel(ABC):
    """What all kernels have in common: how blocks are taken in, and how state is taken apart into fragments."""

    hold_us: int = 0
    late_reason: str = "has gone on past the time of this row"

    @abstractmethod
    def late(self, port: int, block: Block, watermark_us: int) -> NDArray[np.bool_]:
        """Which rows come too late to be counted."""

    @abstractmethod
    def lift(self, port: int, block: Block) -> Tables:
        """A block in the form that travels."""

    @abstractmethod
    def merged(self, tables: Sequence[Tables]) -> Tables:
        """Several tables as one."""

    @abstractmethod
    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:
        """The state after new input and after the watermark moved on, and the results."""

    @abstractmethod
    def identity(self, number: int, table: Any) -> list[Column]:
        """The columns that say, beside the instance, what a row of a table is."""

    def deadlines_us(self, number: int, table: Any) -> Ints | None:  # noqa: ARG002  (a kernel may know better)
        """The watermark at which each row of a table is needed at the latest; None where there is no such time."""
        return None

    def utility(self, number: int, table: Any) -> NDArray[np.float64]:  # noqa: ARG002  (a kernel may know better)
        """What each row of a table is worth, compared with the others."""
        return np.ones(len(table))

    def lift_timely(self, port: int, block: Block, watermark_us: int, shared: Shared) -> tuple[Tables, Block]:  # noqa: ARG002
        """Lift the rows of a block that are not late; returns also those that are."""
        late = self.late(port, block, watermark_us)
        if not late.any():
            return self.lift(port, block), Block({}, 0)
        return self.lift(port, block.where(~late)), block.take(np.flatnonzero(late))

    def with_condition(self, condition: Expression) -> Self:  # noqa: ARG002  (a kernel may know better)
        """The kernel itself: it checks no condition."""
        return self

    def open(self) -> State:
        """The state before any event."""
        return State()

    def process(self, state: State, block: Block, port: int = 0) -> Block:
        """Take a block into a state; returns the rows that came too late."""
        late = self.late(port, block, state.watermark_us)
        fresh = self.lift(port, block.where(~late))
        self._advance(state, fresh, state.watermark_us)
        return block.take(np.flatnonzero(late))

    def close_until(self, state: State, watermark_us: int) -> Block:
        """Move the watermark of a state on; returns the results not yet asked for."""
        self._advance(state, {}, max(state.watermark_us, watermark_us))
        results, state.results = concat_blocks(state.results), []
        return results

    def fragments(self, state: State) -> Fragments:
        """All fragments of a state: rows of equal identity are one."""
        return listed([self._rows(number, table) for number, table in sorted(state.tables.items()) if len(table)])

    def extract(self, state: State, ids: Ids) -> Tables:
        """Take the fragments with some ids out of a state."""
        wanted = {number: np.isin(self._ids(number, table), ids) for number, table in state.tables.items()}
        taken = {number: table.where(wanted[number]) for number, table in state.tables.items()}
        state.tables = kept({number: table.where(~wanted[number]) for number, table in state.tables.items()})
        return kept(taken)

    def absorb(self, state: State, piece: Tables) -> None:
        """Put what was extracted into a state."""
        state.tables = self.merged([state.tables, piece])

    def _ids(self, number: int, table: Any) -> Ids:
        return ids_of(number, [table.instance, *self.identity(number, table)], len(table))

    def _rows(self, number: int, table: Any) -> Fragments:
        """Every row of a table as a fragment."""
        rows, deadlines_us = len(table), self.deadlines_us(number, table)
        return Fragments(
            self._ids(number, table),
            np.full(rows, number),
            table.instance,
            np.full(rows, table.nbytes // rows),
            np.full(rows, NO_DEADLINE_US) if deadlines_us is None else deadlines_us,
            self.utility(number, table),
            np.ones(rows, bool),
        )

    def _advance(self, state: State, fresh: Tables, watermark_us: int) -> None:
        state.tables, results = self.advance(state.tables, fresh, state.watermark_us, watermark_us)
        state.watermark_us = watermark_us
        if results.length:
            state.results.append(results)


def kept(tables: Mapping[int, Any]) -> Tables:
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


NO_RESULTS = Block({INSTANCE: np.zeros(0, np.int64), TIME: np.zeros(0, np.int64)}, 0)
"""No answers."""
