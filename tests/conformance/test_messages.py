"""Messages: every type that one process writes and another reads comes back whole, and damage is never taken for it."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.connectors.sources import file_log as filelog
from shoal.errors import MessageError
from shoal.model.control.partitioning import SLOTS, Partitioning
from shoal.model.query.graph import OPERATOR_KINDS, InstanceId, Operator, OperatorId
from shoal.model.spatial.tiles import Axis, Tile
from shoal.runtimes.spark.rebinding import mailbox
from shoal.runtimes.spark.state import checkpoint
from shoal.runtimes.spark.tasks import reports
from shoal.session import journal
from shoal.storage.codec import Codec
from shoal.storage.record import sealed, unsealed

CODECS: list[Codec[Any]] = [
    checkpoint.GRAPHS.codec,
    checkpoint.MANIFESTS.codec,
    checkpoint.PLANS.codec,
    filelog.RECORD.codec,
    journal.ENTRIES,
    mailbox.REPLIES.codec,
    mailbox.MARKS.codec,
    mailbox.REQUESTS.codec,
    reports.FAILURES,
    reports.HEADERS,
    reports.REPORTS,
]
CASES = [
    pytest.param(codec, type_, id=f"{type_.__module__.removeprefix('shoal.')} {kind}")
    for codec in CODECS
    for kind, type_ in codec.kinds.items()
]
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda part: st.lists(part, max_size=2) | st.dictionaries(st.text(max_size=5), part, max_size=2),
    max_leaves=3,
)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    Any: PLAIN,
    Axis: st.sampled_from(get_args(Axis)),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    int: NUMBERS,
    str: st.text(max_size=5),
    type(None): st.none(),
}


def values(type_: Any) -> st.SearchStrategy[Any]:
    """Random values of a type, every field of a dataclass drawn."""
    if type_ in SIMPLE:
        return SIMPLE[type_]
    if type_ in RULED:
        return RULED[type_]()
    if hasattr(type_, "__supertype__"):
        return values(type_.__supertype__)
    if is_dataclass(type_):
        hints = get_type_hints(type_)
        return st.builds(cast(Any, type_), **{each.name: values(hints[each.name]) for each in fields(type_)})
    arguments = get_args(type_)
    if get_origin(type_) is Mapping:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=2)
    if get_origin(type_) is tuple and arguments[1:] == (...,):
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if get_origin(type_) is tuple:
        return st.tuples(*map(values, arguments))
    if get_origin(type_) is UnionType:
        return st.one_of(*(values(each) for each in arguments))
    raise TypeError(f"no values are known for type {type_}")


@st.composite
def lanes(draw: st.DrawFn) -> reports.LaneReport:
    size = draw(st.integers(0, 3))
    names = ("instances", "events", "rows", "results", "state_bytes", "carried_bytes")
    columns = {name: tuple(draw(st.lists(NUMBERS, min_size=size, max_size=size))) for name in names}
    alone_s = draw(values(Mapping[int, float]))
    instances, events, rows, results, state_bytes, carried_bytes = (columns[name] for name in names)
    return reports.LaneReport(
        instances=instances,
        events=events,
        rows=rows,
        results=results,
        state_bytes=state_bytes,
        carried_bytes=carried_bytes,
        advancing_s=draw(SIMPLE[float]),
        emitting_s=0.5,
        alone_s=alone_s,
        arrivals=draw(values(tuple[reports.TileReport, ...])),
    )


def operators() -> st.SearchStrategy[Operator]:
    return st.builds(
        Operator, st.sampled_from(OPERATOR_KINDS), values(Mapping[str, Any]), values(tuple[OperatorId, ...])
    )


def partitionings() -> st.SearchStrategy[Partitioning]:
    slots = st.lists(st.integers(0, 3), min_size=SLOTS, max_size=SLOTS).map(tuple)
    entry = st.tuples(values(InstanceId), slots)
    layout = st.tuples(values(OperatorId), st.tuples(st.tuples(st.integers(0, 9), tiles())))
    return st.builds(Partitioning, NUMBERS, st.just(()) | st.tuples(entry), st.just(()) | st.tuples(layout))


@st.composite
def tiles(draw: st.DrawFn) -> Tile:
    left, top = draw(st.integers(0, 1 << 40)), draw(st.integers(0, 1 << 40))
    return Tile(left, top, left + draw(st.integers(1, 9)), top + draw(st.integers(1, 9)))


RULED: dict[Any, Callable[[], st.SearchStrategy[Any]]] = {
    Operator: operators,
    Partitioning: partitionings,
    Tile: tiles,
    reports.LaneReport: lanes,
}


@pytest.mark.parametrize(("codec", "type_"), CASES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_is_written_is_read(codec: Codec[Any], type_: type, data: st.DataObject) -> None:
    value = data.draw(values(type_))
    assert codec.decode(unsealed(sealed(codec.encode(value)))) == value


@pytest.mark.parametrize(("codec", "type_"), CASES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_random_damage_is_a_message_error_or_goes_unnoticed_only_without_a_checksum(
    codec: Codec[Any], type_: type, data: st.DataObject
) -> None:
    content = codec.encode(data.draw(values(type_)))
    at = data.draw(st.integers(0, len(content) - 1))
    spoiled = content[:at] + data.draw(st.binary(max_size=4)) + content[at + data.draw(st.integers(0, 4)) :]
    try:
        found = codec.decode(spoiled)
    except MessageError:
        return
    assert type(found) in codec.kinds.values()
    if spoiled != content:
        with pytest.raises(MessageError, match="checksum does not match"):
            unsealed(sealed(content).replace(content, spoiled))
