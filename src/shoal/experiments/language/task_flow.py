"""Flows as they are written: a list of tasks becomes a tree of `Task`, with parameters still by name."""

from collections.abc import Mapping
from typing import Any

from shoal.errors import did_you_mean
from shoal.experiments.experiment import Dialect, Task, TaskFlow
from shoal.experiments.language.task_table import BY_TIMESTAMPS, FAST, TASKS, ArgumentKind, TaskSpec
from shoal.language.yaml.document import YamlPart

TASK_KEYS: Mapping[str, str] = {
    "task": "what is done",
    "node": "who does it: a number, a list of numbers, or coordinator",
    "arguments": "with what",
    "parallel": "whether the next task begins at once",
    "ack": "whether anybody waits for its end",
    "lock-spe": "accepted and without effect: a node does one task after another",
    "realism": "of sendDsAsStream: whether rows are sent by their timestamps",
}
"""The keys of a task and what each is for."""
COORDINATOR = "coordinator"


def read_flow(part: YamlPart, dialect: Dialect) -> TaskFlow:
    """The flow that a part declares; names, numbers of arguments and who does what are checked."""
    return TaskFlow(_tasks(part, dialect, "flow", None))


def _tasks(part: YamlPart, dialect: Dialect, what: str, inherited: tuple[int, ...] | None) -> tuple[Task, ...]:
    """A list of tasks; those that do not say who does them are done by `inherited`, if there is one."""
    items = part.items(what)
    if not items:
        part.fail(f"{what} must have at least one task")
    return tuple(_task(item, dialect, inherited) for item in items)


def _task(item: YamlPart, dialect: Dialect, inherited: tuple[int, ...] | None) -> Task:
    entries = item.entries("task", TASK_KEYS, hyphens=True)
    if "task" not in entries:
        item.fail(f"a task must have a key 'task'; got {item.shown}")
    spec = _spec(entries["task"], dialect)
    for key in ("realism",):
        if key in entries and key not in spec.keys:
            entries[key].fail(f"{spec.name} has no key {key!r}; it is for sendDsAsStream")
    nodes = _nodes(entries.get("node"), spec, item, inherited)
    return Task(
        spec.name,
        nodes,
        _arguments(entries, spec, dialect, item, nodes),
        _flag(entries, "parallel", default=False),
        _flag(entries, "ack", default=True),
        item.where,
    )


def _spec(part: YamlPart, dialect: Dialect) -> TaskSpec:
    name, known = part.text("task"), TASKS[dialect]
    if name not in known:
        part.fail(f"there is no task {name!r}; there are {', '.join(sorted(known))}{did_you_mean(name, known)}")
    return known[name]


def _nodes(part: YamlPart | None, spec: TaskSpec, item: YamlPart, inherited: tuple[int, ...] | None) -> tuple[int, ...]:
    """The nodes that do a task; none if it is the coordinator."""
    if part is None:
        if inherited is not None and (inherited or spec.by != "node"):
            return inherited
        if spec.by == "node":
            item.fail(f"{spec.name} must say which node does it, as in 'node: 1' or 'node: [1, 2]'")
        return ()
    written = part.data()
    if written == COORDINATOR:
        if spec.by == "node":
            part.fail(f"{spec.name} is done by a node, not by the coordinator; give its number, as in 'node: 1'")
        return ()
    listed = written if isinstance(written, list) else [written]
    if not listed or any(type(each) is not int or each < 1 for each in listed):
        part.fail(f"node must be a number, a list of numbers, or {COORDINATOR}; got {part.shown}")
    if spec.by == COORDINATOR:
        part.fail(f"{spec.name} is done by the coordinator; say 'node: {COORDINATOR}', or leave 'node' out")
    if len(set(listed)) < len(listed):
        part.fail(f"node has a number twice; got {part.shown}")
    return tuple(listed)


def _arguments(
    entries: Mapping[str, YamlPart], spec: TaskSpec, dialect: Dialect, item: YamlPart, nodes: tuple[int, ...]
) -> tuple[Any, ...]:
    part = entries.get("arguments")
    parts = part.items(f"arguments of {spec.name}") if part else []
    if len(parts) < spec.fewest or (spec.most is not None and len(parts) > spec.most):
        (part or item).fail(f"{spec.name} takes {_amount(spec)}: {spec.usage}; got {len(parts)}")
    given = [_argument(each, spec, index, dialect, nodes) for index, each in enumerate(parts)]
    if not spec.repeats:
        given += [each.default for each in spec.arguments[len(given) :]]
    if "realism" in entries:
        pace = BY_TIMESTAMPS if _flag(entries, "realism", default=False) else FAST
        if len(parts) > 2 and given[2] not in (pace, pace == BY_TIMESTAMPS):
            entries["realism"].fail(f"{spec.name} says two things: realism and the third argument differ")
        given[2] = pace
    return tuple(given)


def _amount(spec: TaskSpec) -> str:
    if spec.most is None:
        return f"{spec.fewest} or more arguments"
    if spec.most == 0:
        return "no arguments"
    amount = str(spec.most) if spec.most == spec.fewest else f"{spec.fewest} to {spec.most}"
    return f"{amount} argument{'s' * (spec.most > 1)}"


def _argument(part: YamlPart, spec: TaskSpec, index: int, dialect: Dialect, nodes: tuple[int, ...]) -> Any:
    argument = spec.argument(index)
    if argument.kind is ArgumentKind.TASKS:
        return _tasks(part, dialect, f"tasks of {spec.name}", nodes)
    data = part.data()
    if isinstance(data, dict):
        part.fail(f"{argument.name} of {spec.name} must be {argument.kind}; got {part.shown}")
    return tuple(data) if isinstance(data, list) else data


def _flag(entries: Mapping[str, YamlPart], key: str, *, default: bool) -> bool:
    if key not in entries:
        return default
    value = entries[key].data()
    if not isinstance(value, bool):
        entries[key].fail(f"{key} of a task must be true or false; got {entries[key].shown}")
    return value
