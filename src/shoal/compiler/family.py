"""Families: operators that do the same to different rows, so that they can run in one lane."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.compiler.build import kernel_of, partition_of
from shoal.compiler.cover import DispatchByCell
from shoal.compiler.lane import Feed, Lane, Outlet
from shoal.compiler.section import Section, SinkWay, Way
from shoal.compiler.steps import DispatchByGroup, DispatchByOrigin, DispatchByValue, Filter, Select, Step
from shoal.model.query.expression import Binary, Column, Constant
from shoal.model.query.graph import InstanceId, OperatorId
from shoal.model.query.schema import Schema


@dataclass(frozen=True)
class Member:
    """One operator, split into what it shares with its family and the value that distinguishes it."""

    section: Section
    before: tuple[Step, ...]
    dispatch: str
    value: Any
    after: tuple[Step, ...]

    @property
    def constant(self) -> str:
        """The key that is the same for every row, if the distinguishing equality is on a key; else empty."""
        keys = self.section.operator.parameters["keys"] if self.section.operator.kind == "aggregate" else ()
        return self.dispatch if self.dispatch and self.dispatch in keys and not self._redefined else ""

    @property
    def _redefined(self) -> bool:
        """Whether the column has another value by the time the operator reads it."""
        return any(
            not (isinstance(expression, Column) and expression.name == name)
            for step in self.after
            if isinstance(step, Select)
            for name, expression in step.columns
            if name == self.dispatch
        )


@dataclass
class _Lanes:
    """Lanes built so far; `home`: the lane of each operator with state, and its position there."""

    made: list[Lane] = field(default_factory=list)
    home: dict[OperatorId, tuple[int, int]] = field(default_factory=dict)
    groups: dict[int, int] = field(default_factory=dict)

    def instances_of(self, operator: OperatorId) -> range:
        """Numbers of an operator's instances in its lane."""
        lane, position = self.home[operator]
        groups = self.groups[lane]
        return range(position * groups, (position + 1) * groups)


def families(parts: Sequence[Section], sinks: Sequence[SinkWay]) -> tuple[Lane, ...]:
    """The lanes of a graph, built level by level: a lane comes after the lanes that feed it."""
    lanes = _Lanes()
    for level in sorted({part.level for part in parts}):
        for members in _families([part for part in parts if part.level == level], lanes):
            _add(members, lanes)
    _add_outlets([sink for sink in sinks if not sink.way.stream], lanes)
    _add_plain([sink for sink in sinks if sink.way.stream], lanes)
    return tuple(lanes.made)


def _families(parts: Sequence[Section], lanes: _Lanes) -> list[list[Member]]:
    """Operators that can run in one lane.

    An instance belongs to one operator. Operators that differ in text only have the same shape and value. They must
    not share a lane, or one of them would keep its state under the other's id.
    """
    found: dict[tuple[Any, ...], list[Member]] = {}
    twins: dict[tuple[Any, ...], dict[str, int]] = {}
    for part in parts:
        member = _member(part, lanes)
        shape = _shape(member, lanes)
        known = twins.setdefault((shape, member.value), {})
        twin = known.setdefault(part.operator.id, len(known))
        found.setdefault((shape, twin), []).append(member)
    return list(found.values())


def _member(part: Section, lanes: _Lanes) -> Member:
    steps = part.ways[0].steps
    if len(part.ways) > 1:
        return Member(part, (), "", None, ())
    if not part.ways[0].stream:
        position = lanes.home[part.ways[0].origin.id][1]
        return Member(part, tuple(_lasting(steps)), "", position, ())
    types = _declared(part.ways[0])
    equality = None if part.operator.groups > 1 else _equality(steps, types)
    if equality is None:
        return Member(part, tuple(_lasting(steps)), "", None, ())
    at, column, value = equality
    return Member(part, tuple(_lasting(steps[:at])), column, value, tuple(_lasting(steps[at + 1 :])))


def _shape(member: Member, lanes: _Lanes) -> tuple[Any, ...]:
    """Equal for members that can run in one lane."""
    part = member.section
    way = part.ways[0]
    alone = len(part.ways) > 1 or (part.operator.groups > 1 and not way.stream)
    origin = way.stream or lanes.home[way.origin.id][0]
    steps = tuple(step.text for step in member.before), tuple(step.text for step in member.after)
    window = part.window.text if part.window else ""
    own = part.operator.id if alone else ""
    return (origin, steps, member.dispatch, type(member.value), part.operator.text, window, own)


def _add(members: Sequence[Member], lanes: _Lanes) -> None:
    """One lane for members of one shape; members of the same operator share an instance."""
    first = members[0]
    part = first.section
    number = len(lanes.made)
    for position, member in enumerate(members):
        lanes.home[member.section.operator.id] = (number, position)
    lanes.groups[number] = part.operator.groups
    several = len(members) > 1 or bool(first.dispatch)
    kernel = kernel_of(part.operator, part.window, first.constant, by_instance=several)
    feeding = [lanes.made[lanes.home[way.origin.id][0]] for way in part.ways if not way.stream]
    streams = {way.stream for way in part.ways if way.stream}.union(*(lane.streams for lane in feeding))
    hold = max((lane.hold_us + (lane.kernel.hold_us if lane.kernel else 0) for lane in feeding), default=0)
    clock = part.window.parameters.get("clock") if part.window else None
    lane = Lane(
        number,
        kernel,
        tuple(_instances(members)),
        tuple(_feeds(members, lanes)),
        (),
        first.constant,
        tuple(member.value for member in members) if first.constant else (),
        part.level,
        frozenset(streams),
        hold,
        clock == "processing",
        _types(part),
    )
    lanes.made.append(lane)


def _types(part: Section) -> tuple[tuple[tuple[str, str], ...], ...]:
    types = part.operator.parameters["types"]
    sides = types if isinstance(types, list) else [types]
    return tuple(tuple(side.items()) for side in sides)


def _instances(members: Sequence[Member]) -> Iterator[InstanceId]:
    for member in members:
        yield from member.section.operator.instances


def _feeds(members: Sequence[Member], lanes: _Lanes) -> Iterator[Feed]:
    first = members[0]
    part = first.section
    if first.dispatch:
        dispatch = DispatchByValue(first.dispatch, tuple(member.value for member in members))
        yield Feed(part.ways[0].stream, (*first.before, dispatch, *first.after))
        return
    for way in part.ways:
        steps = tuple(_lasting(way.steps))
        columns = partition_of(part.operator, way.port)
        spread: tuple[Step, ...] = (DispatchByGroup(columns, part.operator.groups),)
        if part.operator.grid:
            spread = (
                DispatchByCell(part.operator.parameters["keys"][way.port], part.operator.grid, part.operator.groups),
            )
        if way.stream:
            yield Feed(way.stream, (*steps, *spread), way.port)
            continue
        target = _targets(members, way, lanes)
        origin = lanes.home[way.origin.id][0]
        yield Feed(
            origin, (target, *steps, *(spread if part.operator.groups > 1 or part.operator.grid else ())), way.port
        )


def _targets(members: Sequence[Member], way: Way, lanes: _Lanes) -> DispatchByOrigin:
    """Which member each instance of the feeding lane feeds."""
    lane = lanes.made[lanes.home[way.origin.id][0]]
    target = [-1] * len(lane.instances)
    for position, member in enumerate(members):
        origin = way.origin if len(members) == 1 else member.section.ways[0].origin
        for instance in lanes.instances_of(origin.id):
            target[instance] = position
    return DispatchByOrigin(tuple(target))


def _add_outlets(sinks: Sequence[SinkWay], lanes: _Lanes) -> None:
    """One outlet per table and following steps; a second query of the same instance needs a second outlet."""
    outlets_of: dict[int, dict[tuple[Any, ...], dict[int, SinkWay]]] = {}
    for sink in sinks:
        lane, _ = lanes.home[sink.way.origin.id]
        instances = lanes.instances_of(sink.way.origin.id)
        key = (sink.query.table, tuple(step.text for step in sink.way.steps))
        known = outlets_of.setdefault(lane, {})
        repetition = 0
        while not known.setdefault((*key, repetition), {}).keys().isdisjoint(instances):
            repetition += 1
        known[(*key, repetition)].update(dict.fromkeys(instances, sink))
    for number, known in outlets_of.items():
        lane_ = lanes.made[number]
        size = len(lane_.instances)
        lanes.made[number] = replace(lane_, outlets=tuple(_outlet(each, size) for each in known.values() if each))


def _outlet(sink_of: Mapping[int, SinkWay], size: int) -> Outlet:
    first = next(iter(sink_of.values()))
    names = tuple(sink_of[i].query.name if i in sink_of else None for i in range(size))
    return Outlet(first.query.table, first.way.steps, Schema.of(first.query.columns), names)


@dataclass(frozen=True)
class _Plain:
    """Queries without state that can run in one lane: the steps they share, and the sinks of each value."""

    before: tuple[Step, ...]
    column: str
    after: tuple[Step, ...]
    sinks_of: dict[Any, list[SinkWay]] = field(default_factory=dict)


def _add_plain(sinks: Sequence[SinkWay], lanes: _Lanes) -> None:
    """Lanes without state: queries that only filter and compute."""
    found: dict[tuple[Any, ...], _Plain] = {}
    for sink in sinks:
        steps = sink.way.steps
        at, column, value = _equality(steps, _declared(sink.way)) or (
            len(steps),
            "",
            None,
        )
        plain = _Plain(tuple(_lasting(steps[:at])), column, steps[at + 1 :])
        texts = tuple(step.text for step in plain.before), tuple(step.text for step in plain.after)
        key = (sink.way.stream, texts, column, type(value), sink.query.table)
        found.setdefault(key, plain).sinks_of.setdefault(value, []).append(sink)
    for (stream, *_), plain in found.items():
        sinks_of = list(plain.sinks_of.values())
        dispatch: Step = (
            DispatchByValue(plain.column, tuple(plain.sinks_of)) if plain.column else DispatchByGroup((), 1)
        )
        layers = range(max(len(several) for several in sinks_of))
        outlets = tuple(_plain_outlet(sinks_of, layer) for layer in layers)
        feed = Feed(stream, (*plain.before, dispatch, *plain.after))
        lanes.made.append(Lane(len(lanes.made), None, (), (feed,), outlets, streams=frozenset({stream})))


def _plain_outlet(sinks_of: Sequence[Sequence[SinkWay]], layer: int) -> Outlet:
    """The outlet of the n-th sink of every value; `layer` is n, from 0."""
    there = {position: several[layer] for position, several in enumerate(sinks_of) if layer < len(several)}
    return replace(_outlet(there, len(sinks_of)), steps=())


def _declared(way: Way) -> Mapping[str, str]:
    """The types of the stream that a path begins with."""
    return Schema.of(way.origin.parameters["schema"]).types


def _lasting(steps: Sequence[Step]) -> Iterator[Step]:
    """Steps without those that only drop columns: a lane reads the columns it needs anyway."""
    return (step for step in steps if not (isinstance(step, Select) and step.only_drops))


def _equality(steps: Sequence[Step], types: Mapping[str, str]) -> tuple[int, str, Any] | None:
    """Index, column and constant of the first filter `column == constant` on a stream's integers or texts."""
    for at, step in enumerate(steps):
        match step:
            case Filter(Binary("eq", Column(name), Constant(value))):
                if type(value) is {"int64": int, "string": str}.get(types.get(name, "")):
                    return at, name, value
            case Filter():
                continue
            case Select(only_drops=True):
                continue
            case _:  # after it, columns may no longer be the stream's
                return None
    return None
