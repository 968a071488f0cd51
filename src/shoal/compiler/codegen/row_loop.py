"""Loops: the text of one function that takes each row through several steps, and the columns of its result.

The first conditions are evaluated for a short stretch of rows without branches. Then, for the rows that pass, only
what the remaining conditions and columns need is computed.
"""

import inspect
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.compiler.codegen.generated import COMPILED, FUNCTION, Code
from shoal.compiler.codegen.row_code import (
    BITS,
    BOOL,
    INT,
    Argument,
    Drawn,
    Dtype,
    FusionError,
    Number,
    Passed,
    RowCode,
    Value,
)
from shoal.compiler.codegen.row_expression import condition_of, value_of
from shoal.compiler.steps import (
    MIX,
    NULL_BITS,
    Assign,
    Attach,
    DispatchByGroup,
    DispatchByOrigin,
    DispatchByValue,
    Filter,
    Retime,
    Select,
    Step,
    bits_of,
)
from shoal.kernels.columns.table import INSTANCE
from shoal.language.python.flow import WINDOW_END, WINDOW_START
from shoal.language.python.join import HAS_RIGHT
from shoal.model.query.schema import TIME, FieldType

STRETCH = 1024
"""Number of rows whose first conditions are evaluated before anything else."""
FEW_PASSED = 3
"""Unchanged columns that are copied in the loop; more of them are copied afterwards, and only if a row was dropped."""
_NUMBA = {"bool": "boolean"}


@dataclass(frozen=True)
class Keep:
    """Keep rows for which a condition holds; `filter_`: the number of the step, if it is a filter."""

    condition: Number
    filter_: int | None = None


@dataclass(frozen=True)
class Repeat:
    """Repeat each row, with a variable that counts from 1."""

    counter: Number
    times: int


@dataclass(frozen=True)
class Loop:
    """A function over all rows of a block, the arrays it takes and writes, and the columns of its result.

    `columns`: what each column is; `written`: the numbers that the function writes, an array each; `same_rows`: whether
    the result always has the rows of the block; `most`: rows of the result per row of the block, at most.
    """

    code: Code
    arguments: tuple[Argument, ...]
    columns: Mapping[str, Value]
    written: tuple[Number, ...]
    same_rows: bool
    most: int

    @property
    def passed_late(self) -> tuple[int, ...]:
        """Positions of written numbers that are unchanged columns, copied once the remaining rows are known."""
        passed = tuple(position for position, number in enumerate(self.written) if number.column)
        return passed if len(passed) > FEW_PASSED else ()

    @property
    def writes_rows(self) -> bool:
        """Whether the function lists the rows that remain."""
        unseen = any(isinstance(value, Passed) for value in self.columns.values())
        return not self.same_rows and (unseen or bool(self.passed_late))

    @property
    def dtypes(self) -> tuple[Dtype, ...]:
        """Types of the arrays that the function writes."""
        return (*(number.dtype for number in self.written), *([INT] if self.writes_rows else []))


class _Steps:
    """The columns of a row after the steps so far."""

    def __init__(self, types: Mapping[str, FieldType], nullable: Collection[str] = ()) -> None:
        self.code = RowCode(nullable)
        self.columns: dict[str, Value] = {name: self.code.column(name, type_) for name, type_ in types.items()}
        self.actions: list[Keep | Repeat] = []

    def add(self, number: int, step: Step) -> None:
        """Apply one more step."""
        match step:
            case Filter(condition):
                holds = self.code.holding(condition_of(self.code, condition, self.columns))
                self.actions.append(Keep(holds, number))
            case Select():
                kept = {name: self.columns[name] for name in (INSTANCE, TIME) if name in self.columns}
                values = {name: value_of(self.code, expression, self.columns) for name, expression in step.columns}
                self.columns = values | kept
            case Attach():
                self._attach(step)
            case Assign():
                self._assign(step)
            case Retime(column):
                self.columns[TIME] = self._present(column)
            case DispatchByGroup():
                self.columns[INSTANCE] = self._group(step)
            case DispatchByValue():
                position = self.code.position(self.columns[step.column], step.values, step.index)
                self._dispatch(position)
            case DispatchByOrigin(target):
                origin, numbers = self._integer(INSTANCE), range(len(target))
                self._dispatch(self.code.by_key(origin, numbers, lambda slots: np.array(target, np.int64)[slots], -1))
            case _:
                raise FusionError(f"{type(step).__name__} is left to columns")

    def _present(self, name: str) -> Value:
        value = self.columns[name]
        if isinstance(value, Number) and value.valid is not None:
            raise FusionError(f"column {name!r} may be null")
        return value

    def _integer(self, name: str) -> Number:
        value = self._present(name)
        if not isinstance(value, Number) or value.dtype != INT:
            raise FusionError(f"column {name!r} is no integer")
        return self.code.held(value)

    def _dispatch(self, position: Number) -> None:
        """Keep rows for which an instance was found."""
        self.actions.append(Keep(self.code.number(f"{position.name} >= 0", BOOL, position)))
        self.columns[INSTANCE] = position

    def _attach(self, step: Attach) -> None:
        code, position = self.code, self.code.position(self.columns[step.column], step.keys, step.index)
        there = code.number(f"{position.name} >= 0", BOOL, position)
        if step.defaults is None:
            self.actions.append(Keep(there))
        else:
            position = code.number(f"{position.name} if {there.name} else {len(step.keys)}", INT, position, there)
        self.columns |= {name: code.at(values, position) for name, values in step.values.items()}
        if step.defaults is not None:
            self.columns[HAS_RIGHT] = there

    def _assign(self, step: Assign) -> None:
        code, window = self.code, step.window
        time = self._integer(TIME if TIME in self.columns else step.time)
        slide = code.constant(window.slide_us)
        pane = code.number(f"{time.name} // {slide.name}", INT, time)
        counter = code.constant(1)
        if window.panes > 1:
            counter = Number(f"w{len(self.actions)}", INT)
            self.actions.append(Repeat(counter, window.panes))
        end = code.computed(code.computed(pane, "+", counter), "*", slide)
        self.columns[WINDOW_START] = code.computed(end, "-", code.constant(window.size_us))
        self.columns[WINDOW_END] = end
        self.columns[TIME] = code.computed(end, "-", code.constant(1))

    def _group(self, step: DispatchByGroup) -> Number:
        code, values = self.code, [self.columns[name] for name in step.columns]
        if len(values) == 1 and isinstance(values[0], Number):
            number = code.held(code.cast(code.otherwise(values[0], "0"), INT))
            return code.number(f"{number.name} % {step.groups}", INT, number)
        mixed = code.number("np.uint64(0)", BITS)
        for value in values:
            bits = self._bits(value)
            product = code.number(f"({mixed.name} ^ {bits.name}) * np.uint64({MIX})", BITS, mixed, bits)
            mixed = code.number(f"{product.name} ^ ({product.name} >> np.uint64(32))", BITS, product)
        return code.number(f"np.int64({mixed.name} % np.uint64({step.groups}))", INT, mixed)

    def _bits(self, value: Value) -> Number:
        code = self.code
        if isinstance(value, Number):
            bits = code.cast(code.held(code.cast(value, INT)), BITS)
            return code.otherwise(replace(bits, valid=value.valid), f"np.uint64({NULL_BITS})")
        if isinstance(value, Drawn) or (isinstance(value, Passed) and value.is_text):
            of_text = code.by_entry(value, bits_of, "bits")
            if isinstance(of_text, Number):
                return of_text
        raise FusionError("groups of lists and of constant texts are left to columns")


class _Text:
    """The lines of the function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 1
        self._done: set[str] = set()

    def add(self, line: str, *, opens: bool = False) -> None:
        self.lines.append("    " * self._depth + line)
        self._depth += opens

    def close(self) -> None:
        """Close a block; what was computed in it must be computed again."""
        self._depth -= 1
        self._done.clear()

    def need(self, number: Number) -> str:
        """The name of a number, after code that computes it."""
        for need in number.needs:
            self.need(need)
        if number.text and number.name not in self._done:
            self._done.add(number.name)
            self.add(f"{number.name} = {number.text}")
        return number.name


def loop_of(
    steps: Sequence[Step],
    types: Mapping[str, FieldType],
    wanted: Collection[str] | None = None,
    nullable: Collection[str] = (),
) -> Loop:
    """One loop for some steps over columns of some types, with the columns that are wanted; raises `FusionError`.

    `nullable`: the columns that have nulls.
    """
    state = _Steps(types, nullable)
    for number, step in enumerate(steps):
        state.add(number, step)
    columns = {
        name: state.code.cleaned(value) if isinstance(value, Number) else value
        for name, value in state.columns.items()
        if wanted is None or name in wanted
    }
    same_rows = not state.actions
    numbers = {id(each): each for value in columns.values() for each in _written(value, same_rows)}
    most = math.prod(action.times for action in state.actions if isinstance(action, Repeat))
    if same_rows and not numbers:
        raise FusionError("nothing is computed")
    return _with_code(Loop(Code("", ""), (), columns, tuple(numbers.values()), same_rows, most), state)


def fusable(steps: Sequence[Step], types: Mapping[str, FieldType]) -> int:
    """How many of the first steps have row code."""
    state = _Steps(types)
    for number, step in enumerate(steps):
        try:
            state.add(number, step)
        except FusionError:
            return number
    return len(steps)


def _written(value: Value, same_rows: bool) -> Iterator[Number]:
    """The numbers that the loop writes for a column."""
    if isinstance(value, Drawn):
        yield value.at
    elif isinstance(value, Number) and not (same_rows and value.column):
        yield value
        if value.valid is not None:
            yield value.valid


def _with_code(loop: Loop, state: _Steps) -> Loop:
    lines = _lines(loop, state.actions)
    used = set(re.findall(r"\ba\d+\b", "\n".join(lines)))
    arguments = tuple(argument for argument in state.code.arguments.values() if argument.name in used)
    outputs = [f"o{number}" for number in range(len(loop.written))] + ["rows"] * loop.writes_rows
    head = f"def {FUNCTION}({', '.join(['n', *(argument.name for argument in arguments), *outputs])}):"
    functions = [_copied(function) for _, function in sorted(state.code.functions.items())]
    types = ["int64", *(_array(a.dtype, "True") for a in arguments), *(_array(dtype, "False") for dtype in loop.dtypes)]
    body = "\n\n".join([*functions, "\n".join(["", head, *lines, ""])])
    return replace(loop, code=Code(body, f"int64({', '.join(types)})"), arguments=arguments)


def _array(dtype: Dtype, readonly: str) -> str:
    return f"Array({_NUMBA.get(dtype.name, dtype.name)}, 1, 'C', {readonly})"


def _copied(function: Callable[..., Any]) -> str:
    return f"\n{COMPILED}\n{inspect.getsource(function)}"


def _lines(loop: Loop, actions: Sequence[Keep | Repeat]) -> list[str]:
    text, first = _Text(), _first_conditions(actions)
    text.add("k = np.uint64(0)")
    if first:
        text.add(f"picked = np.empty({STRETCH}, np.uint64)")
        text.add(f"for start in range(0, n, {STRETCH}):", opens=True)
        text.add("m = np.uint64(0)")
        text.add(f"for i in range(start, min(start + {STRETCH}, n)):", opens=True)
        conditions = " & ".join([text.need(keep.condition) for keep in first])
        text.add("picked[m] = i")
        text.add(f"m += np.uint64({conditions})")
        text.close()
        text.add("for j in range(m):", opens=True)
        text.add("i = picked[j]")
    else:
        text.add("for i in range(n):", opens=True)
    for action in actions[len(first) :]:
        if isinstance(action, Repeat):
            text.add(f"for {action.counter.name} in range(1, {action.times + 1}):", opens=True)
        else:
            condition = text.need(action.condition)
            text.add(f"if not {condition}:")
            text.add("    continue")
    for position, number in enumerate(loop.written):
        if position not in loop.passed_late:
            text.add(f"o{position}[k] = {text.need(number)}")
    if loop.writes_rows:
        text.add("rows[k] = i")
    text.add("k += np.uint64(1)")
    return [*text.lines, *_late_lines(loop), "    return np.int64(k)"]


def _late_lines(loop: Loop) -> list[str]:
    text = _Text()
    if loop.passed_late and loop.most == 1:
        text.add("if k < n:", opens=True)
    for position in loop.passed_late:
        text.add("for j in range(k):", opens=True)
        text.add("i = np.uint64(rows[j])")
        text.add(f"o{position}[j] = {loop.written[position].text}")
        text.close()
    return text.lines


def _first_conditions(actions: Sequence[Keep | Repeat]) -> list[Keep]:
    """The conditions of the leading consecutive filters, before any other action."""
    first: list[Keep] = []
    for action in actions:
        if not isinstance(action, Keep) or action.filter_ is None:
            break
        if first and action.filter_ != (first[-1].filter_ or 0) + 1:
            break
        first.append(action)
    return first
