"""Flows at a point: parameters get their values, and every argument is checked and brought into one form.

What nodes get has no names of parameters, no names of streams and no words of other systems: streams, datasets and
queries are numbers, lists are tuples, mechanisms have our names, times are numbers in the unit of the dialect.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shoal.errors import GraphError, did_you_mean
from shoal.experiments.experiment import Dialect, Parameters, Task, TaskFlow
from shoal.experiments.language.task_table import (
    BY_TIMESTAMPS,
    FAST,
    MECHANISM_WORDS,
    TASKS,
    ArgumentKind,
)
from shoal.model.query.duration import text_us

Names = Mapping[int, str]
"""Declared things by their number, each with its name."""
HOSTS = ("addPotentialHost", "addSourceNode", "addSinkNode")
"""Tasks by which nodes take part in a flow without a task of their own."""


@dataclass(frozen=True)
class Declared:
    """What the arguments of tasks can refer to."""

    dialect: Dialect
    streams: Names
    datasets: Names
    queries: Names


def flow_at(flow: TaskFlow, parameters: Parameters, declared: Declared) -> TaskFlow:
    """The flow at a point; an argument that is not what it must be is an error with the line of its task."""
    bound = tuple(_bound(task, parameters) for task in flow.tasks)
    scope = _Scope(declared, tuple(parameters), dict.fromkeys(nodes_of(bound), ""), _deployed(bound, declared))
    return TaskFlow(tuple(_checked(task, scope) for task in bound))


def every_task(tasks: Iterable[Task]) -> Iterator[Task]:
    """All tasks, those in loops and batches after the one that has them."""
    for task in tasks:
        yield task
        for argument in task.arguments:
            if _is_tasks(argument):
                yield from every_task(argument)


def _is_tasks(argument: Any) -> bool:
    return isinstance(argument, tuple) and bool(argument) and isinstance(argument[0], Task)


def _bound(task: Task, parameters: Parameters) -> Task:
    """The task with parameters replaced by their values."""

    def value(argument: Any) -> Any:
        if _is_tasks(argument):
            return tuple(_bound(each, parameters) for each in argument)
        if isinstance(argument, tuple):
            return tuple(value(each) for each in argument)
        return parameters[argument] if isinstance(argument, str) and argument in parameters else argument

    return replace(task, arguments=tuple(value(each) for each in task.arguments))


def nodes_of(tasks: Iterable[Task]) -> tuple[int, ...]:
    """The nodes of a flow: those with a task, and those that are made hosts, sources or sinks of a query."""
    found: set[int] = set()
    for task in every_task(tasks):
        found |= set(task.nodes)
        if task.name in HOSTS and task.arguments:
            listed = task.arguments[0] if isinstance(task.arguments[0], tuple) else (task.arguments[0],)
            found |= {each for each in listed if type(each) is int}
    return tuple(sorted(found))


def _deployed(tasks: Iterable[Task], declared: Declared) -> Names:
    """The queries that a flow deploys, by the number that later tasks know them by."""
    place = 1 if declared.dialect == "dcep-sim" else 0
    numbers = [task.arguments[place] for task in every_task(tasks) if task.name == "deployQueries"]
    by_name = {name: number for number, name in declared.queries.items()}
    known = (by_name.get(each, each) if place == 0 else each for each in numbers)
    return {each: "" if place else declared.queries.get(each, "") for each in known if type(each) is int}


@dataclass(frozen=True)
class _Scope:
    """What the arguments of one flow can refer to at one point."""

    declared: Declared
    parameters: tuple[str, ...]
    nodes: Names
    deployed: Names


class _ArgumentError(Exception):
    """An argument that is not what it must be; `known` is what it could have been, in order, if that can be listed."""

    def __init__(self, known: Names | Iterable[str] | None = None) -> None:
        super().__init__()
        self.names: list[str] = []
        self.listed: list[str] | None = None
        if isinstance(known, Mapping):
            self.names = list(known.values())
            self.listed = [f"{number} {name}".strip() for number, name in known.items()]
        elif known is not None:
            self.names = self.listed = list(known)


def _checked(task: Task, scope: _Scope) -> Task:
    """The task with all arguments in their one form."""
    spec = TASKS[scope.declared.dialect][task.name]
    given = []
    for index, value in enumerate(task.arguments):
        argument = spec.argument(index)
        if argument.kind is ArgumentKind.TASKS:
            given.append(tuple(_checked(each, scope) for each in value))
        elif argument.optional and value == argument.default:
            given.append(value)
        else:
            try:
                given.append(_CHECKS[argument.kind](scope, value))
            except _ArgumentError as wrong:
                what = f"{argument.name} of {task.name} must be {argument.kind}"
                raise GraphError(f"{task.where}: {what}{_instead(value, wrong, scope)}") from None
    return replace(task, arguments=tuple(given))


def _instead(value: Any, wrong: _ArgumentError, scope: _Scope) -> str:
    """The end of a message: what is declared, what was given, and which parameters could stand there."""
    listed = "" if wrong.listed is None else f" ({', '.join(wrong.listed) or 'there are none'})"
    if not isinstance(value, str):
        return f"{listed}; got {_shown(value)}"
    parameters = ", ".join(scope.parameters) or "there are none"
    near = did_you_mean(value, [*wrong.names, *scope.parameters])
    return f"{listed}, or a parameter of the experiment ({parameters}); got {value!r}{near}"


def _shown(value: Any) -> str:
    return f"[{', '.join(map(_shown, value))}]" if isinstance(value, tuple) else repr(value)


def _one(known: Names, value: Any) -> int:
    """A declared thing, by number or by name."""
    found = [number for number, name in known.items() if value == (name if isinstance(value, str) else number)]
    if len(found) != 1 or isinstance(value, bool):
        raise _ArgumentError(known)
    return found[0]


def _several(known: Names, value: Any) -> tuple[int, ...]:
    listed = value if isinstance(value, tuple) else (value,)
    found = tuple(_one(known, each) for each in listed)
    if not found or len(set(found)) < len(found):
        raise _ArgumentError(known)
    return found


def _mechanism(value: Any) -> str:
    word = str(value).replace("_", "-")
    if word not in MECHANISM_WORDS:
        raise _ArgumentError(MECHANISM_WORDS.keys())
    return MECHANISM_WORDS[word]


def _whole(value: Any, least: int) -> int:
    if type(value) is not int or value < least:
        raise _ArgumentError
    return value


def _number(value: Any, *, above_zero: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise _ArgumentError
    if above_zero and not value:
        raise _ArgumentError
    return value


def _time(value: Any, unit_us: int) -> float:
    us = text_us(value) if isinstance(value, str) else None
    return _number(value if us is None else us / unit_us, above_zero=False)


def _pace(value: Any) -> str | float:
    if isinstance(value, bool):
        return BY_TIMESTAMPS if value else FAST
    return str(value) if value in (FAST, BY_TIMESTAMPS) else _number(value, above_zero=True)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _ArgumentError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, tuple):
        raise _ArgumentError
    return tuple(map(str, value))


def _operator(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _ArgumentError
    return str(value)


_CHECKS: Mapping[ArgumentKind, Callable[[_Scope, Any], Any]] = {
    ArgumentKind.STREAM: lambda scope, value: _one(scope.declared.streams, value),
    ArgumentKind.STREAMS: lambda scope, value: _several(scope.declared.streams, value),
    ArgumentKind.NODE: lambda scope, value: _one(scope.nodes, value),
    ArgumentKind.NODES: lambda scope, value: _several(scope.nodes, value),
    ArgumentKind.DATASET: lambda scope, value: _one(scope.declared.datasets, value),
    ArgumentKind.QUERY: lambda scope, value: _one(scope.declared.queries, value),
    ArgumentKind.DEPLOYED: lambda scope, value: _one(scope.deployed, value),
    ArgumentKind.MECHANISM: lambda _, value: _mechanism(value),
    ArgumentKind.COUNT: lambda _, value: _whole(value, 0),
    ArgumentKind.POSITIVE: lambda _, value: _whole(value, 1),
    ArgumentKind.RATE: lambda _, value: _number(value, above_zero=True),
    ArgumentKind.MILLISECONDS: lambda _, value: _time(value, 1000),
    ArgumentKind.MICROSECONDS: lambda _, value: _time(value, 1),
    ArgumentKind.PACE: lambda _, value: _pace(value),
    ArgumentKind.TEXT: lambda _, value: _text(value),
    ArgumentKind.TEXTS: lambda _, value: _texts(value),
    ArgumentKind.OPERATOR: lambda _, value: _operator(value),
}
