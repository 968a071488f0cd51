"""Fused steps: consecutive stateless steps as one compiled loop that gives the same blocks as the steps do.

Steps without row code (user functions, exponentials, texts of several columns) stay as they are. The steps before and
after them are still fused.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numba.core.errors import NumbaError

from shoal.compiler.codegen.loop_run import LoopRun
from shoal.compiler.codegen.row_code import DTYPES, FusionError, Number
from shoal.compiler.codegen.row_loop import Loop, fusable, loop_of
from shoal.compiler.cover import Cover
from shoal.compiler.steps import Assign, Attach, DispatchByGroup, Filter, Retime, Select, Step
from shoal.errors import GraphError, SchemaError
from shoal.kernels.columns.block import ARROW_TYPES, Block, Column
from shoal.kernels.columns.nullable import Nullable
from shoal.kernels.columns.table import INSTANCE
from shoal.language.python.flow import WINDOW_END, WINDOW_START
from shoal.language.python.join import HAS_RIGHT
from shoal.model.query.schema import TIME, FieldType, Schema

Types = Mapping[str, FieldType]
"""The type of every column, in order."""
FEWEST_STEPS = 2
"""Number of steps that is always worth a loop."""
WORTH_ROWS = 1_000_000
"""Rows in blocks with nulls that are worth the time to compile a loop for them."""


class FusedSteps:
    """Several steps as one step. Every node needs its own: results are in buffers that the next block overwrites.

    There is a loop for blocks without nulls, and another one for those with nulls in columns that the steps read. The
    second is compiled once many rows have needed it; until then such blocks go through the steps one by one.
    """

    def __init__(self, steps: Sequence[Step], types: Types, wanted: Collection[str] | None = None) -> None:
        """Write the loop; it is compiled by `prepare`, and until then the steps are applied one by one."""
        self.steps = tuple(steps)
        self.loop: Loop = loop_of(steps, types, wanted)
        self._types, self._wanted = dict(types), wanted
        self._read = sorted(types.keys() & (self.reads() | {argument.column for argument in self.loop.arguments}))
        self._run: LoopRun | None = None
        self._nulls: frozenset[str] = frozenset()
        self._loop_with_nulls: Loop | None = None
        self._run_with_nulls: LoopRun | None = None
        self._rows_with_nulls = 0
        self._check(self.loop)

    @property
    def text(self) -> str:
        """Canonical text."""
        return "; ".join(step.text for step in self.steps)

    @property
    def has_loop_for_nulls(self) -> bool:
        """Whether blocks with nulls in the columns of which some was null already go through a loop."""
        return self._run_with_nulls is not None

    def reads(self) -> frozenset[str]:
        """Columns that some step reads."""
        return frozenset().union(*(step.reads() for step in self.steps))

    def prepare(self) -> None:
        """Compile the loop for blocks without nulls, or load it."""
        self._run = LoopRun(self.loop)

    def apply(self, block: Block) -> Block:
        """The block after the steps; blocks of other types than expected go through them one by one."""
        run = self._run_for(block) if self._run is not None and block.length and self._fits(block) else None
        if run is not None:
            return run.apply(block)
        for step in self.steps:
            block = step.apply(block)
        return block

    def _run_for(self, block: Block) -> LoopRun | None:
        """The loop for a block, if it is ready."""
        nulls = [name for name in self._read if _has_nulls(block.columns[name])]
        if not nulls:
            return self._run
        if not self._nulls.issuperset(nulls):
            self._expect_nulls(nulls)
        if self._loop_with_nulls is not None and self._run_with_nulls is None:
            self._rows_with_nulls += block.length
            if self._rows_with_nulls >= WORTH_ROWS:
                self._compile_for_nulls(self._loop_with_nulls)
        return self._run_with_nulls

    def _compile_for_nulls(self, loop: Loop) -> None:
        try:
            self._run_with_nulls = LoopRun(loop)
        except NumbaError:
            self._loop_with_nulls = None

    def _expect_nulls(self, names: Collection[str]) -> None:
        """Write the loop for blocks that have nulls in some more columns."""
        self._nulls = self._nulls.union(names)
        self._loop_with_nulls = self._run_with_nulls = None
        with suppress(FusionError):
            loop = loop_of(self.steps, self._types, self._wanted, self._nulls)
            self._check(loop)
            self._loop_with_nulls = loop
            if loop.code.is_kept:
                self._compile_for_nulls(loop)

    def _fits(self, block: Block) -> bool:
        columns = block.columns
        return list(columns) == list(self._types) and all(
            _is(columns[name], type_) for name, type_ in self._types.items()
        )

    def _check(self, loop: Loop) -> None:
        """Compare the planned columns with those the steps give for an empty block."""
        block = Block({name: _empty(type_) for name, type_ in self._types.items()}, 0)
        for step in self.steps:
            block = step.apply(block)
        planned = {name: v.dtype.name if isinstance(v, Number) else "" for name, v in loop.columns.items()}
        made = {name: c.dtype.name if isinstance(c, np.ndarray) else "" for name, c in block.columns.items()}
        if [(name, type_) for name, type_ in made.items() if name in planned] != list(planned.items()):
            raise FusionError(f"columns {made} would become {planned}")


@dataclass(frozen=True)
class Chain:
    """Consecutive steps, some of them fused; `apply` applies them all."""

    steps: tuple[Step, ...]

    @property
    def fused(self) -> tuple[FusedSteps, ...]:
        """The loops among them."""
        return tuple(step for step in self.steps if isinstance(step, FusedSteps))

    def apply(self, block: Block) -> Block:
        """The block after all steps."""
        for step in self.steps:
            block = step.apply(block)
        return block


def fused(
    steps: Sequence[Step], types: Types, wanted: Collection[str] | None = None, fewest: int = FEWEST_STEPS
) -> Chain | None:
    """Fuse steps over columns of some types where possible; None if nothing can be fused.

    Columns that are not `wanted` may be left out of the result.
    Fewer than `fewest` steps become a loop only with a filter or select among them, or a hash of several columns.
    Nothing is compiled yet; see `prepare`.

    >>> from shoal.model.query.expression import col
    >>> steps = [Filter(col("kind") == 0), Select((("twice", col("speed") * 2),))]
    >>> chain = fused(steps, {"kind": "int64", "speed": "float64"})
    >>> len(chain.steps)
    1
    """
    done: list[Step] = []
    rest, here = tuple(steps), dict(types)
    while rest:
        most = _longest(rest, here, wanted, fewest)
        done.append(rest[0] if most is None else most)
        passed = rest[:1] if most is None else most.steps
        rest = rest[len(passed) :]
        after = types_after(passed, here) if rest else here
        if after is None:
            done += rest
            break
        here = dict(after)
    chain = Chain(tuple(done))
    return chain if chain.fused else None


def prepare(chains: Iterable[Chain], say: Callable[[str], None] | None = None) -> None:
    """Compile the loops of chains, or load them; steps that cannot be compiled stay as they are.

    `say` is called if this takes a while because something is not in the cache.
    """
    steps = [step for chain in chains for step in chain.fused]
    missing = {step.loop.code.name for step in steps if not step.loop.code.is_kept}
    if missing and say is not None:
        say(f"compiling {len(missing)} chain{'s' if len(missing) > 1 else ''} ...")
    for step in steps:
        with suppress(NumbaError):
            step.prepare()


def types_after(steps: Iterable[Step], types: Types) -> Types | None:
    """The columns after some steps; None if they cannot be determined."""
    after = dict(types)
    try:
        for step in steps:
            after = _types_after(step, after)
    except (GraphError, SchemaError):
        return None
    return after


def _longest(steps: Sequence[Step], types: Types, wanted: Collection[str] | None, fewest: int) -> FusedSteps | None:
    """As many of the first steps as fit one loop, if that is worth it."""
    for number in range(fusable(steps, types), 0, -1):
        if not _is_worth(steps[:number], fewest):
            return None
        try:
            return FusedSteps(steps[:number], types, wanted if number == len(steps) else None)
        except FusionError:
            continue
    return None


def _is_worth(steps: Sequence[Step], fewest: int) -> bool:
    return len(steps) >= fewest or any(
        isinstance(step, Filter | Select) or (isinstance(step, DispatchByGroup) and len(step.columns) > 1)
        for step in steps
    )


def _types_after(step: Step, types: dict[str, FieldType]) -> dict[str, FieldType]:
    match step:
        case Filter():
            return types
        case Select():
            schema = Schema.of({name: type_ for name, type_ in types.items() if name.isidentifier()})
            selected = {name: expression.type_in(schema, "select") for name, expression in step.columns}
            return selected | {name: types[name] for name in (INSTANCE, TIME) if name in types}
        case Attach():
            added: dict[str, Any] = {name: type_ for name, type_, _ in step.columns}
            return types | added | ({} if step.defaults is None else {HAS_RIGHT: "bool"})
        case Assign():
            return types | dict.fromkeys((WINDOW_START, WINDOW_END, TIME), "timestamp")
        case Retime():
            return types | {TIME: "timestamp"}
        case Cover():
            return types | {step.column: "int64"}
        case _:
            return types | {INSTANCE: "int64"}


def _empty(type_: FieldType) -> Column:
    return np.zeros(0, DTYPES[type_]) if type_ in DTYPES else pa.array([], ARROW_TYPES[type_])


def _is(column: Column, type_: FieldType) -> bool:
    if type_ in DTYPES:
        numbers = column.values if isinstance(column, Nullable) else column
        return isinstance(numbers, np.ndarray) and numbers.dtype == DTYPES[type_] and numbers.ndim == 1
    if type_ != "string":
        return True
    if not isinstance(column, pa.Array):
        return False
    return pa.types.is_string(column.type.value_type if pa.types.is_dictionary(column.type) else column.type)


def _has_nulls(column: Column) -> bool:
    return not isinstance(column, np.ndarray) and (isinstance(column, Nullable) or bool(column.null_count))
