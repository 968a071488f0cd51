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
from numpy.typing import NDArray

from shoal.compiler.codegen.generated import function_of
from shoal.compiler.codegen.row_code import CODE, DTYPES, Argument, Drawn, Fixed, FusionError, Number, Passed, Value
from shoal.compiler.codegen.row_loop import Loop, fusable, loop_of
from shoal.compiler.steps import Assign, Attach, DispatchByGroup, Filter, Retime, Select, Step
from shoal.errors import GraphError, SchemaError
from shoal.kernels.columns.block import ARROW_TYPES, Block, Column, encoded, take
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.expression.evaluate import repeated
from shoal.language.python.flow import WINDOW_END, WINDOW_START
from shoal.language.python.join import HAS_RIGHT
from shoal.model.query.schema import TIME, FieldType, Schema

Types = Mapping[str, FieldType]
"""The type of every column, in order."""
FEWEST_STEPS = 2
"""Number of steps that is always worth a loop."""


class FusedSteps:
    """Several steps as one step. Every node needs its own: results are in buffers that the next block overwrites."""

    def __init__(self, steps: Sequence[Step], types: Types, wanted: Collection[str] | None = None) -> None:
        """Write the loop; it is compiled by `prepare`, and until then the steps are applied one by one."""
        self.steps = tuple(steps)
        self.loop: Loop = loop_of(steps, types, wanted)
        self._types = dict(types)
        self._buffers: list[NDArray[Any]] = []
        self._function: Callable[..., int] | None = None
        self._texts: dict[str, pa.DictionaryArray] = {}
        self._tables: dict[str, tuple[pa.Array, dict[str, Column]]] = {}
        self._check()

    @property
    def text(self) -> str:
        """Canonical text."""
        return "; ".join(step.text for step in self.steps)

    def reads(self) -> frozenset[str]:
        """Columns that some step reads."""
        return frozenset().union(*(step.reads() for step in self.steps))

    def prepare(self) -> None:
        """Compile the loop, or load it."""
        self._function = function_of(self.loop.code)

    def apply(self, block: Block) -> Block:
        """The block after the steps; blocks of other types than expected, or with nulls, go through them one by one."""
        if self._function is None or not block.length or not self._fits(block):
            for step in self.steps:
                block = step.apply(block)
            return block
        loop, function = self.loop, self._function
        self._texts = {}
        arrays = [self._array(argument, block) for argument in loop.arguments]
        buffers = self._buffers_for(block.length * loop.most)
        length = function(block.length, *arrays, *buffers)
        made = [array[:length] for array in buffers]
        same_rows = loop.same_rows or (loop.most == 1 and length == block.length)
        rows = made.pop() if loop.writes_rows else np.empty(0, np.int64)
        numbers = {id(number): array for number, array in zip(loop.written, made, strict=True)}

        def column(value: Value) -> Column:
            match value:
                case Number(column=name) | Passed(name) if name and same_rows:
                    return block.columns[name]
                case Number():
                    return numbers[id(value)]
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

    def _array(self, argument: Argument, block: Block) -> NDArray[Any]:
        """What the function gets for an argument."""
        if argument.kind == "column":
            column: NDArray[Any] = block.columns[argument.column]
        elif argument.kind == "codes":
            column = self._encoded(argument.column, block).indices.to_numpy(zero_copy_only=False)
            column = column.astype(CODE, copy=False)
        else:
            column = self._table(argument, block)
        return column if column.flags.c_contiguous and column.flags.aligned else np.array(column)

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
            tables[argument.name] = argument.make(entries)
        return tables[argument.name]

    def _encoded(self, name: str, block: Block) -> pa.DictionaryArray:
        """The texts of a column with their dictionary, made once per block."""
        if name not in self._texts:
            self._texts[name] = encoded(block.columns[name])
        return self._texts[name]

    def _fits(self, block: Block) -> bool:
        columns = block.columns
        return list(columns) == list(self._types) and all(
            _is(columns[name], type_) for name, type_ in self._types.items()
        )

    def _check(self) -> None:
        """Compare the planned columns with those the steps give for an empty block."""
        block = Block({name: _empty(type_) for name, type_ in self._types.items()}, 0)
        for step in self.steps:
            block = step.apply(block)
        planned = {name: v.dtype.name if isinstance(v, Number) else "" for name, v in self.loop.columns.items()}
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
        case _:
            return types | {INSTANCE: "int64"}


def _empty(type_: FieldType) -> Column:
    return np.zeros(0, DTYPES[type_]) if type_ in DTYPES else pa.array([], ARROW_TYPES[type_])


def _is(column: Column, type_: FieldType) -> bool:
    if type_ in DTYPES:
        return isinstance(column, np.ndarray) and column.dtype == DTYPES[type_] and column.ndim == 1
    if type_ != "string":
        return True
    if not isinstance(column, pa.Array) or column.null_count:
        return False
    return pa.types.is_string(column.type.value_type if pa.types.is_dictionary(column.type) else column.type)
