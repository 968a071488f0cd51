"""The contract of stateful kernels: logic is constant, state is an argument.

A kernel lifts blocks into tables where they are read, merges the tables into its state where the instance is bound,
and emits results as the watermark advances. Between any two blocks, fragments of state can be extracted and absorbed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column
from shoal.kernels.columns.effort import Effort
from shoal.kernels.columns.shared_values import Shared
from shoal.kernels.columns.table import INSTANCE, Ints, RowTable, Tables, concat_rows
from shoal.kernels.error_bounds import ErrorBounds
from shoal.kernels.spatial.tile_counts import PlacedRows
from shoal.kernels.worth import NOTHING_LEARNED, Learned
from shoal.model.control.fragment import Fragments, Ids
from shoal.model.query.expression import Expression
from shoal.model.query.schema import TIME

ResultsPer = Literal["key", "row", ""]
NEVER_US = -(1 << 62)
"""Watermark before the first event."""
FOREVER_US = 1 << 62
"""Watermark after the last event: it closes every window."""


class Kernel(Protocol):
    """A kernel as lanes run it."""

    @property
    def hold_us(self) -> int:
        """Largest distance between the watermark and the time of a result emitted after it."""

    @property
    def results_per(self) -> ResultsPer:
        """What the number of results follows: the keys of a window, the rows, or neither.

        A part of the rows shows keys as they are and rows in proportion, so that a simulation can go by a sample. It
        does not show pairs, patterns or sessions, nor what a condition on aggregates leaves.
        """

    def reads(self, port: int) -> frozenset[str]:
        """Columns of an input that the kernel reads; others may be dropped before `lift`."""

    def keys(self, port: int) -> tuple[str, ...]:
        """Columns of an input that partition state within an instance; empty if an instance has a single key.

        A key that is constant within every instance is left out. All inputs have the same number, in the same order.
        """

    def table_keys(self, number: int, table: Any) -> list[Column]:
        """The key columns of the rows of state table `number`, in the order of `keys`.

        A row of state has the key of the input rows that it was computed from, in every table.
        """

    @property
    def on_arrival(self) -> bool:
        """Whether rows are compared with state as they arrive, so that all state of their key must be there by then.

        Otherwise rows wait in the state, and results are decided as the watermark advances.
        """

    @property
    def bounded(self) -> bool:
        """Whether state depends on no row from before its oldest fragment, so that rows alone recreate it in time."""

    @property
    def learns(self) -> bool:
        """Whether utilities depend on what `learn` has found out about the input."""

    def pane_us(self, port: int, time: str) -> int:
        """The width of the panes that are all the kernel sees of column `time` of an input; 0 if it may see more.

        Called when a program is compiled. Rows may then be given any other time in their pane.
        """

    def row_keys(self, port: int, block: Block) -> Ids:
        """A hash of instance and key of each row of an input, as in `Fragments.key`."""

    def state_keys(self, number: int, table: Any) -> Ids:
        """A hash of instance and key of each row of state table `number`."""

    def row_times(self, port: int, block: Block) -> Ints:
        """The time of each row of an input. A row whose time is at or after the watermark is late for nothing."""

    def load(self) -> None:
        """Load machine code that a made-up row does not need; called once, before a run on this machine starts."""

    def late(self, port: int, block: Block, watermark_us: int) -> NDArray[np.bool_]:
        """Which rows of a block are late at a watermark; they must not reach `advance`."""

    @property
    def late_reason(self) -> str:
        """Why a row is late, as the rest of a sentence about the operator: "has closed all windows of this row"."""

    def lift(self, port: int, block: Block) -> Tables:
        """Turn a block into tables that can be sent: partial aggregates, or rows."""

    def lift_singly(self, port: int, block: Block) -> Tables:
        """The same without combining rows; called instead where keys hardly repeat within a block."""

    def lift_timely(self, port: int, block: Block, watermark_us: int, shared: Shared) -> tuple[Tables, Block]:
        """Lift the rows of a block that are not late; also returns the late rows.

        Called for every block where it is read. `shared` holds values that other kernels computed from this block.
        """

    def with_condition(self, condition: Expression) -> Self:
        """A kernel that emits only results which satisfy a condition, or this kernel if it cannot check it.

        Called while a program is built, if all readers of the results filter by this condition first.
        """

    def merged(self, tables: Sequence[Tables]) -> Tables:
        """Merge tables, combining rows where that makes them fewer.

        Called with lifted tables, with state, or with both; the order of the tables must not change any result.
        """

    def concatenated(self, tables: Sequence[Tables]) -> Tables:
        """Concatenate tables without merging rows: state of different instances, or input that `advance` will merge."""

    def due(self, before_us: int, after_us: int) -> bool:
        """Whether `advance` may emit results or drop state when the watermark goes from one time to another."""

    def closings(self, tables: Sequence[Tables], before_us: int, after_us: int) -> int | None:
        """How many windows close when the watermark goes from one time to another; None if results come with rows.

        Called before an `advance`, with all that it will merge. Windows before the first row and after the last are
        not counted.
        """

    def due_us(self, number: int, table: Any, watermark_us: int) -> Ints:
        """The first watermark after `watermark_us` at which each row of a state table may give a result without input.

        Called for state that is to be left alone: until its first such watermark, and while no row of its instance
        arrives, `advance` emits nothing from it.
        """

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:
        """Merge input into state and move the watermark; returns the new state and the results.

        `fresh` holds lifted rows that are not late at `before_us`, and `before_us <= after_us`. Results have instance
        and time. A result that is emitted here must not be emitted again from the returned state.
        """

    def open(self) -> "State":
        """An empty state, before any event."""

    def process(self, state: "State", block: Block, port: int = 0) -> Block:
        """Add a block of an input to a state; returns the late rows, which are not added."""

    def close_until(self, state: "State", watermark_us: int) -> Block:
        """Advance the watermark of a state, never back; returns the results not yet returned, each once."""

    def identity(self, number: int, table: Any) -> list[Column]:
        """The columns that identify, with the instance, a row of state table `number`.

        They must not change while the row stays in the state: its fragment keeps its id. Rows that are equal in these
        columns are one fragment and always move as one.
        """

    def row_ids(self, number: int, table: Any) -> Ids:
        """The fragment that each row of state table `number` belongs to."""

    def fragments(self, state: "State", learned: Learned = NOTHING_LEARNED) -> Fragments:
        """List all fragments of a state; utilities use what was learned from the input, if anything was."""

    def worth_shares(self, number: int, state: "State") -> NDArray[np.float64]:
        """The share of the worth of its key that the fragment of each row of state table `number` has.

        Called where a query defines what a key is worth. It is 1 unless fragments of a key are of use only together.
        """

    def learn(self, learned: Learned, port: int, block: Block) -> Learned:
        """What is known after some rows of an input, in addition to what was known before.

        Called, if at all, with samples of the input: rows of some keys that are complete over some time.
        """

    @property
    def by_place(self) -> bool:
        """Whether keys are the cells of a grid."""

    def placed(self, tables: Tables) -> PlacedRows | None:
        """The cells of lifted rows, for statistics of places; None unless keys are cells."""

    def effort(self, before: Tables, fresh: Tables, after: Tables, after_us: int, instances: int) -> Effort | None:
        """What an `advance` took beside its rows and results; None if these say it all.

        Called, if at all, after an `advance` from one state to another, with what it was given. Simulated runtimes
        say by it what the advance costs. Nothing else depends on it.
        """

    def input_rows(self, number: int, table: Any) -> int:
        """How many input rows are in the rows of state table `number`; 0 if it only says what rows there were."""

    def error_bounds(self, lost: Tables) -> ErrorBounds:
        """How far results can be off if tables that were extracted never come back.

        Called with all that was lost of one instance, or of several whose results are judged together.
        """

    def extract(self, state: "State", ids: Ids) -> Tables:
        """Remove the fragments with the given ids from a state and return them; unknown ids are ignored.

        May be called between any two blocks. The other fragments keep their ids.
        """

    def absorb(self, state: "State", piece: Tables) -> None:
        """Merge extracted fragments, of this or another state, into a state.

        Pieces may arrive in any order, while others are still missing. Results equal those of an undisturbed run if
        all state that a result depends on is back before the result is decided: before the watermark advances and,
        where results are emitted as rows match (a join), before the next block.
        """


@dataclass
class State:
    """The state of one or many instances: tables, the watermark, and results not yet returned."""

    tables: Tables = field(default_factory=dict)
    watermark_us: int = NEVER_US
    results: list[Block] = field(default_factory=list)


def kept(tables: Mapping[int, Any]) -> Tables:
    """The tables that have rows."""
    return {number: table for number, table in tables.items() if table is not None and len(table)}


def concat_blocks(blocks: Sequence[Block]) -> Block:
    """Concatenate blocks of the same columns."""
    if not blocks:
        return Block({INSTANCE: np.zeros(0, np.int64), TIME: np.zeros(0, np.int64)}, 0)
    if len(blocks) == 1:
        return blocks[0]
    table = concat_rows([RowTable(block.columns) for block in blocks])
    return blocks[0] if table is None else table.block


NO_RESULTS = Block({INSTANCE: np.zeros(0, np.int64), TIME: np.zeros(0, np.int64)}, 0)
"""A block without results."""
