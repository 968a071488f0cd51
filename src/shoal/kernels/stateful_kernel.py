"""The common part of stateful kernels: how blocks are processed, and how state is divided into fragments."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column
from shoal.kernels.columns.effort import Effort
from shoal.kernels.columns.identity import ids_of, listed
from shoal.kernels.columns.shared_values import Shared
from shoal.kernels.columns.table import INSTANCE, Ints, Tables
from shoal.kernels.error_bounds import ErrorBounds
from shoal.kernels.kernel import ResultsPer, State, concat_blocks, kept
from shoal.kernels.spatial.tile_counts import PlacedRows
from shoal.kernels.worth import NOTHING_LEARNED, Learned
from shoal.model.control.fragment import NO_DEADLINE_US, Fragments, Ids
from shoal.model.query.expression import Expression


class StatefulKernel(ABC):
    """The common part of all kernels: how blocks are processed, and how state is divided into fragments."""

    hold_us: int = 0
    results_per: ResultsPer = ""
    on_arrival: bool = False
    bounded: bool = False
    learns: bool = False
    by_place: bool = False
    late_reason: str = "has advanced past the time of this row"

    @abstractmethod
    def row_times(self, port: int, block: Block) -> Ints:
        """The time of each row of an input."""

    @abstractmethod
    def late(self, port: int, block: Block, watermark_us: int) -> NDArray[np.bool_]:
        """Which rows of a block are late at a watermark."""

    @abstractmethod
    def lift(self, port: int, block: Block) -> Tables:
        """Turn a block into tables that can be sent."""

    def pane_us(self, port: int, time: str) -> int:  # noqa: ARG002
        """Most kernels see every time."""
        return 0

    def lift_singly(self, port: int, block: Block) -> Tables:
        """The same as `lift`, which combines no rows in most kernels."""
        return self.lift(port, block)

    @abstractmethod
    def merged(self, tables: Sequence[Tables]) -> Tables:
        """Merge tables."""

    @abstractmethod
    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:
        """Merge input into state and move the watermark; returns the new state and the results."""

    @abstractmethod
    def identity(self, number: int, table: Any) -> list[Column]:
        """The columns that identify, with the instance, a row of a table."""

    @abstractmethod
    def keys(self, port: int) -> tuple[str, ...]:
        """Columns of an input that partition state within an instance."""

    @abstractmethod
    def table_keys(self, number: int, table: Any) -> list[Column]:
        """The key columns of the rows of a table."""

    def row_keys(self, port: int, block: Block) -> Ids:
        """A hash of instance and key of each row of an input."""
        return ids_of(0, [block.columns[name] for name in (INSTANCE, *self.keys(port))], block.length)

    def state_keys(self, number: int, table: Any) -> Ids:
        """A hash of instance and key of each row of a table."""
        return ids_of(0, [table.instance, *self.table_keys(number, table)], len(table))

    def needed_us(self, number: int, table: Any, watermark_us: int) -> Ints:  # noqa: ARG002  (for kernels to override)
        """The first watermark after `watermark_us` at which a result may depend on each row: the very next."""
        return np.full(len(table), watermark_us + 1)

    def closings(self, tables: Sequence[Tables], before_us: int, after_us: int) -> int | None:  # noqa: ARG002
        """None: results come with rows."""
        return None

    def due_us(self, number: int, table: Any, watermark_us: int) -> Ints:
        """The first watermark at which each row may give a result without input: that at which one depends on it."""
        return self.needed_us(number, table, watermark_us)

    def deadlines_us(self, number: int, table: Any) -> Ints | None:  # noqa: ARG002  (for kernels to override)
        """The watermark by which each row of a table is needed; None if no watermark needs it."""
        return None

    @abstractmethod
    def utility(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:
        """The relative value of each row of table `number`: what is expected to come that needs it.

        It must not depend on the order of rows.
        """

    @abstractmethod
    def error_bounds(self, lost: Tables) -> ErrorBounds:
        """How far results can be off if tables that were extracted never come back."""

    def placed(self, tables: Tables) -> PlacedRows | None:  # noqa: ARG002  (for kernels to override)
        """None: rows have no places."""
        return None

    def effort(self, *_given: Any, **_named: Any) -> Effort | None:
        """None: rows and results say what an `advance` took."""
        return None

    def worth_shares(self, number: int, state: State) -> NDArray[np.float64]:
        """Every fragment is worth as much as its key."""
        return np.ones(len(state.tables[number]))

    def input_rows(self, number: int, table: Any) -> int:  # noqa: ARG002  (for kernels to override)
        """How many input rows are in the rows of a table: one in each."""
        return len(table)

    def learn(self, learned: Learned, port: int, block: Block) -> Learned:  # noqa: ARG002  (for kernels to override)
        """The same as before: most kernels see all they need in their state."""
        return learned

    def lift_timely(self, port: int, block: Block, watermark_us: int, shared: Shared) -> tuple[Tables, Block]:  # noqa: ARG002
        """Lift the rows of a block that are not late; also returns the late rows."""
        late = self.late(port, block, watermark_us)
        if not late.any():
            return self.lift(port, block), Block({}, 0)
        return self.lift(port, block.where(~late)), block.take(np.flatnonzero(late))

    def with_condition(self, condition: Expression) -> Self:  # noqa: ARG002  (for kernels to override)
        """This kernel: it checks no condition."""
        return self

    def open(self) -> State:
        """An empty state."""
        return State()

    def process(self, state: State, block: Block, port: int = 0) -> Block:
        """Add a block to a state; returns the late rows."""
        late = self.late(port, block, state.watermark_us)
        fresh = self.lift(port, block.where(~late))
        self._advance(state, fresh, state.watermark_us)
        return block.take(np.flatnonzero(late))

    def close_until(self, state: State, watermark_us: int) -> Block:
        """Advance the watermark of a state; returns the results not yet returned."""
        self._advance(state, {}, max(state.watermark_us, watermark_us))
        results, state.results = concat_blocks(state.results), []
        return results

    def load(self) -> None:  # noqa: B027  (most kernels need nothing)
        """Nothing: a made-up row runs all that there is."""

    def fragments(self, state: State, learned: Learned = NOTHING_LEARNED) -> Fragments:
        """All fragments of a state: rows of equal identity are one fragment."""
        numbers = [number for number, table in sorted(state.tables.items()) if len(table)]
        return listed([self._rows(number, state, learned) for number in numbers])

    def extract(self, state: State, ids: Ids) -> Tables:
        """Remove the fragments with the given ids from a state and return them."""
        wanted = {number: np.isin(self.row_ids(number, table), ids) for number, table in state.tables.items()}
        taken = {number: table.where(wanted[number]) for number, table in state.tables.items()}
        state.tables = kept({number: table.where(~wanted[number]) for number, table in state.tables.items()})
        return kept(taken)

    def absorb(self, state: State, piece: Tables) -> None:
        """Merge extracted fragments into a state."""
        state.tables = self.merged([state.tables, piece])

    def row_ids(self, number: int, table: Any) -> Ids:
        """The fragment that each row of a table belongs to."""
        return ids_of(number, [table.instance, *self.identity(number, table)], len(table))

    def _rows(self, number: int, state: State, learned: Learned) -> Fragments:
        """Every row of a table as a fragment."""
        table = state.tables[number]
        rows, deadlines_us = len(table), self.deadlines_us(number, table)
        return Fragments(
            self.row_ids(number, table),
            np.full(rows, number),
            table.instance,
            np.full(rows, table.nbytes // rows),
            np.full(rows, NO_DEADLINE_US) if deadlines_us is None else deadlines_us,
            self.utility(number, state, learned),
            np.ones(rows, bool),
            self.state_keys(number, table),
            self.needed_us(number, table, state.watermark_us),
        )

    def _advance(self, state: State, fresh: Tables, watermark_us: int) -> None:
        state.tables, results = self.advance(state.tables, fresh, state.watermark_us, watermark_us)
        state.watermark_us = watermark_us
        if results.length:
            state.results.append(results)
