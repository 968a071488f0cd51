"""Windows in SQL: group windows such as TUMBLE(ts, INTERVAL '10' SECOND), and table functions of the same names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from shoal.errors import SqlError
from shoal.language.python.flow import WINDOW_END, WINDOW_START
from shoal.language.sql.dialect import call_name, place, quoted
from shoal.language.sql.expressions import interval_us
from shoal.model.query.expression import Expression, col
from shoal.model.query.window import Session, Window

WINDOW_TIME = "window_time"
Part = Literal["START", "END", "ROWTIME"]
ROWTIME_US = 1_000
"""Microseconds from a window's row time to its end, as in Flink."""
ROWTIME = col(WINDOW_END) - ROWTIME_US
_SHAPES = {
    "TUMBLE": ("size",),
    "HOP": ("slide", "size"),
    "SESSION": ("gap",),
}
_EXAMPLES = "TUMBLE(ts, INTERVAL '10' SECOND), HOP(ts, slide, size) and SESSION(ts, gap)"
_TABLES = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)), HOP and SESSION alike"
PARTS: dict[str, Part] = {WINDOW_START: "START", WINDOW_END: "END", WINDOW_TIME: "ROWTIME"}
"""What the columns of a table function stand for."""


@dataclass(frozen=True)
class GroupWindow:
    """A window and its time column."""

    time: exp.Expr
    window: Window | Session


@dataclass(frozen=True)
class TableFunction:
    """A window over a table: the table, its time column, the window, and the columns of PARTITION BY."""

    table: exp.Table
    time: exp.Expr
    window: Window | Session
    partition: tuple[exp.Column, ...]


def group_window(tree: exp.Expr, where: str) -> GroupWindow | None:
    """The window that a call of TUMBLE, HOP or SESSION stands for; None for anything else."""
    name = call_name(tree)
    if name not in _SHAPES:
        return None
    if len(tree.expressions) != len(_SHAPES[name]) + 1:
        raise SqlError(f"{place(tree, where)}: windows are {_EXAMPLES}; got {quoted(tree)!r}")
    return GroupWindow(tree.expressions[0], _window(name, tree.expressions[1:], where))


def window_part(tree: exp.Expr, where: str) -> tuple[GroupWindow, Part] | None:
    """The window and the part of it that a call such as HOP_END(ts, ...) asks for; None for anything else."""
    name, _, part = call_name(tree).rpartition("_")
    parts: dict[str, Part] = {"START": "START", "END": "END", "ROWTIME": "ROWTIME"}
    if name not in _SHAPES or part not in parts:
        return None
    found = group_window(exp.Anonymous(this=name, expressions=tree.expressions), where)
    return None if found is None else (found, parts[part])


def part_of(window: Window | Session, part: Part) -> Expression:
    """A part of a window in the rows that an aggregate makes."""
    if part == "END":
        return col(WINDOW_END)
    if part == "ROWTIME":
        return ROWTIME
    return col(WINDOW_START) if isinstance(window, Session) else col(WINDOW_END) - window.size_us


def table_function(tree: exp.Expr, where: str) -> TableFunction | None:
    """The window over a table that stands in FROM; None for a plain table."""
    call = tree.this if isinstance(tree, exp.Table) else None
    if not isinstance(call, exp.Anonymous):
        return None
    if call_name(call) == "TABLE" and len(call.expressions) == 1:
        call = call.expressions[0]
    name = call_name(call)
    if name not in _SHAPES:
        raise SqlError(f"{place(tree, where)}: {quoted(tree)!r} is not supported; table functions are {_TABLES}")
    arguments, partition = _arguments(call, name)
    if len(arguments) != len(_SHAPES[name]) + 2 or not isinstance(arguments[0], exp.Table):
        raise SqlError(f"{place(call, where)}: table functions are {_TABLES}; got {quoted(call)!r}")
    descriptor = arguments[1]
    if call_name(descriptor) != "DESCRIPTOR" or len(descriptor.expressions) != 1:
        raise SqlError(
            f"{place(descriptor, where)}: expected DESCRIPTOR(column) as second argument; got {quoted(descriptor)!r}"
        )
    return TableFunction(arguments[0], descriptor.expressions[0], _window(name, arguments[2:], where), partition)


def _arguments(call: exp.Expr, name: str) -> tuple[list[exp.Expr], tuple[exp.Column, ...]]:
    """Arguments in order, named ones sorted, and the columns of PARTITION BY, which the parser adds arguments to."""
    found: list[exp.Expr] = []
    partition: list[exp.Column] = []
    for argument in call.expressions:
        found.append(argument)
        table = argument.expression if isinstance(argument, exp.Kwarg) else argument
        keys = table.args.get("partition") if isinstance(table, exp.Table) else None
        swallowed = keys.expressions if keys else ()
        found += [each for each in swallowed if not isinstance(each, exp.Column)]
        partition += [each for each in swallowed if isinstance(each, exp.Column)]
    if not any(isinstance(argument, exp.Kwarg) for argument in found):
        return found, tuple(partition)
    named = {argument.this.name.upper(): argument.expression for argument in found if isinstance(argument, exp.Kwarg)}
    wanted = ("DATA", "TIMECOL", *(word.upper() for word in _SHAPES[name]))
    complete = set(named) == set(wanted) and len(found) == len(wanted)
    return [named[word] for word in wanted] if complete else [], tuple(partition)


def _window(name: str, arguments: Sequence[exp.Expr], where: str) -> Window | Session:
    lengths = [interval_us(argument, where) for argument in arguments]
    if name == "SESSION":
        return Session(lengths[0])
    return Window(lengths[-1], lengths[0])
