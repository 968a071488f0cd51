"""DCEP-Sim's operators, translated into flows.

A select after a window aggregates; a groupby before it gives the keys. A join takes its predicates from the filters
right after it, and its time bounds from the storage windows (`emit-size: -1`) right before it.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from shoal.errors import GraphError, ShoalError
from shoal.language.dcep.predicate import FILTER_KEYS, Join, Track, condition, joined, predicate
from shoal.language.python.flow import WINDOW_END, Flow
from shoal.language.python.replay import replayed
from shoal.language.yaml.definitions import StreamDefinition
from shoal.language.yaml.document import YamlPart
from shoal.language.yaml.vertex import OUTPUTS, Vertex
from shoal.model.query.aggregate import Aggregate, AggregateKind
from shoal.model.query.duration import MICROSECONDS, text_us
from shoal.model.query.expression import Expression
from shoal.model.query.functions import call
from shoal.model.query.graph import Query
from shoal.model.query.window import AnyWindow, Rows, Window

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "input": ("stream-id", "alias"),
    "filter": FILTER_KEYS,
    "groupby": ("fields",),
    "select": ("fields",),
    "window": (
        "size",
        "jump",
        "size-type",
        "emit-size",
        "emit-type",
        "external-timestamp-field",
        "storage-s",
    ),
    "join": (),
    "cep": ("pattern", "within", "define", "measures", "after", "selection"),
    "print": (),
    "passthrough": (),
    "output": ("stream-id",),
    "sink": ("stream-id",),
}
"""Operator types and the parameters of each."""
DCEP_TYPES = tuple(PARAMETERS)
STORAGE_S = 86_400.0
"""How long a join keeps the rows of a storage window that counts rows, unless its `storage-s` says otherwise."""
SIZE_TYPES = ("TUPLE_COUNT", "PROCESSING_TIME", "EXTERNAL_TIME")
_AGGREGATES: Mapping[str, AggregateKind] = {
    "avg": "mean",
    "mean": "mean",
    "sum": "sum",
    "min": "min",
    "max": "max",
    "count": "count",
    "stddev": "stddev",
    "variance": "variance",
}
_FIELD = re.compile(r"\s*(?:(\w+)\s*\(\s*([\w.*]+)\s*\)|([\w.]+))(?:\s+(?:as\s+)?(\w+))?\s*", re.IGNORECASE)


def translated(vertices: Sequence[Vertex], name: str, part: YamlPart, streams: Mapping[str, StreamDefinition]) -> Query:
    """The query that DCEP-Sim's operators, in an order in which inputs come first, make."""
    ends = [vertex for vertex in vertices if vertex.type in OUTPUTS]
    if len(ends) != 1:
        part.fail(f"query {name!r} must have one output; got {', '.join(v.name for v in ends) or 'none'}")
    fed = {each for vertex in vertices for each in vertex.inputs}
    if loose := [vertex for vertex in vertices if (vertex.name in fed) == (vertex in ends)]:
        loose[0].fail("nothing can follow it" if loose[0] in ends else "no edge leads from it to anything")
    tracks: dict[str, Track] = {}
    for vertex in vertices:
        with _located(vertex):
            tracks[vertex.name] = _track(vertex, [tracks[each] for each in vertex.inputs], streams)
    end = tracks[ends[0].name]
    if end.window is not None:
        ends[0].fail("a window must be followed by a select with an aggregate, e.g. avg(B.price) price")
    with _located(ends[0]):
        return end.flow.sink(name)


@contextmanager
def _located(vertex: Vertex) -> Iterator[None]:
    """Add the position of a mistake to its error, unless it has one."""
    try:
        yield
    except ShoalError as error:
        if str(error).startswith(f"{vertex.part.file} line "):
            raise
        vertex.fail(error)


def _track(vertex: Vertex, inputs: Sequence[Track], streams: Mapping[str, StreamDefinition]) -> Track:
    """The track after an operator."""
    if vertex.type not in PARAMETERS:
        vertex.fail(f"operator type must be one of {', '.join(DCEP_TYPES)} in a query with an input")
    entries = vertex.entries(PARAMETERS[vertex.type], hyphens=True)
    wanted = {"input": 0, "join": 2}.get(vertex.type, 1)
    if len(inputs) != wanted:
        vertex.fail(f"there must be {wanted} edges to it; got {', '.join(vertex.inputs) or 'none'}")
    if vertex.type == "input":
        return _input(vertex, entries, streams)
    if vertex.type == "join":
        return _join(vertex, inputs)
    (before,) = inputs
    if before.storage_s is not None:
        vertex.fail("a storage window (emit-size -1) must be followed by a join")
    if vertex.type == "filter":
        return _filtered(vertex, entries, before)
    if vertex.type in ("print", "passthrough"):
        return before
    before = joined(vertex, before)
    return {"groupby": _grouped, "window": _windowed, "select": _selected, "cep": _matched}.get(
        vertex.type, lambda _vertex, _entries, same: same
    )(vertex, entries, before)


def _input(vertex: Vertex, entries: Mapping[str, YamlPart], streams: Mapping[str, StreamDefinition]) -> Track:
    if "stream-id" not in entries:
        vertex.fail("parameter 'stream-id' is missing")
    wanted = entries["stream-id"].text("stream-id")
    found = [stream for stream in streams.values() if wanted in (stream.id, stream.name)]
    if not found:
        known = ", ".join(f"{stream.id} ({stream.name})" for stream in streams.values()) or "none"
        entries["stream-id"].fail(f"there is no stream {wanted!r}; there are {known}")
    alias = entries["alias"].text("alias") if "alias" in entries else found[0].name
    flow = found[0].stream()
    return Track(flow, {f"{alias}.{name}": name for name in flow.schema.names})


def _join(vertex: Vertex, inputs: Sequence[Track]) -> Track:
    for track, name in zip(inputs, vertex.inputs, strict=True):
        if track.storage_s is None:
            vertex.fail(f"there must be a storage window (emit-size -1) between {name!r} and it")
    left, right = inputs
    if clash := [field for field in left.fields if field in right.fields]:
        vertex.fail(f"both sides have a field {clash[0]!r}; give their inputs an alias each")
    return Track(left.flow, {**left.fields, **right.fields}, join=Join(left, right))


def _filtered(vertex: Vertex, entries: Mapping[str, YamlPart], before: Track) -> Track:
    said = predicate(vertex, entries)
    if before.join is not None:
        return replace(before, join=replace(before.join, predicates=(*before.join.predicates, said)))
    if before.window is not None:
        vertex.fail("a filter must not stand between a window and its select")
    return replace(before, flow=before.flow.filter(condition(vertex, before, *said)))


def _grouped(vertex: Vertex, entries: Mapping[str, YamlPart], before: Track) -> Track:
    keys = (before.column(field, vertex.fail) for field in _texts(vertex, entries))
    return replace(before, keys=(*before.keys, *keys))


def _windowed(vertex: Vertex, entries: Mapping[str, YamlPart], before: Track) -> Track:
    for key in ("size", "size-type"):
        if key not in entries:
            vertex.fail(f"parameter {key!r} is missing")
    if "emit-size" in entries and entries["emit-size"].number("emit-size") == -1:
        return replace(before, storage_s=_storage_s(entries))
    if before.window is not None:
        vertex.fail("a window must not follow another one without a select between them")
    return replace(before, window=vertex.parameters)


def _texts(vertex: Vertex, entries: Mapping[str, YamlPart]) -> list[str]:
    if "fields" not in entries:
        vertex.fail("parameter 'fields' is missing")
    return [item.text("field") for item in entries["fields"].items("fields")]


def _storage_s(entries: Mapping[str, YamlPart]) -> float:
    """How long a join keeps the rows of one side."""
    size = entries["size"].number("size")
    if size < 0:
        entries["size"].fail(f"size of a storage window must not be negative; got {size}")
    if _size_type(entries["size-type"]) != "TUPLE_COUNT":
        return size / MICROSECONDS
    if "storage-s" not in entries:
        return STORAGE_S if size else 0.0
    kept = entries["storage-s"].data()
    if isinstance(kept, str) and (us := text_us(kept)) is not None:
        return us / MICROSECONDS
    if isinstance(kept, bool) or not isinstance(kept, int | float):
        entries["storage-s"].fail(f"storage-s must be a number of seconds; got {kept!r}")
    return float(kept)


def _size_type(part: YamlPart) -> str:
    said = part.text("size-type").replace(" ", "_")
    if said not in SIZE_TYPES:
        part.fail(f"size-type must be one of {', '.join(SIZE_TYPES)}; got {said!r}")
    return said


def _selected(vertex: Vertex, entries: Mapping[str, YamlPart], before: Track) -> Track:
    wanted: dict[str, tuple[str, str]] = {}
    for text in _texts(vertex, entries):
        found = _FIELD.fullmatch(text)
        if found is None:
            vertex.fail(f"a field must be alias.field, alias.field name or avg(alias.field) name; got {text!r}")
        kind, inner, plain, name = found.groups()
        name = name or (f"{kind}_{inner.partition('.')[2] or inner}" if kind else plain.rpartition(".")[2])
        if name in wanted:
            vertex.fail(f"two fields are called {name!r}; give one of them another name, as in 'A.id other'")
        wanted[name] = (kind.lower() if kind else "", inner if kind else plain)
    if not any(kind for kind, _ in wanted.values()):
        if before.window is not None or before.keys:
            vertex.fail("a select after a window or groupby must have an aggregate, e.g. avg(B.price) price")
        chosen = {name: before.column(field, vertex.fail) for name, (_, field) in wanted.items()}
        return Track(_kept(before.flow, chosen), {f".{name}": name for name in chosen})
    return _aggregated(vertex, before, wanted)


def _kept(flow: Flow, chosen: Mapping[str, str]) -> Flow:
    """A select that renames."""
    columns = [[name, ["col", column]] for name, column in chosen.items()]
    return replayed("select", [flow], {"columns": columns}, {})


def _aggregated(vertex: Vertex, before: Track, wanted: Mapping[str, tuple[str, str]]) -> Track:
    if before.window is None:
        vertex.fail("an aggregate needs a window before it")
    aggregates: dict[str, Aggregate] = {}
    keys = dict.fromkeys(before.keys)
    chosen: dict[str, str] = {}
    for name, (kind, field) in wanted.items():
        if kind and kind not in _AGGREGATES:
            vertex.fail(f"aggregate must be one of {', '.join(_AGGREGATES)}; got {kind!r}")
        if kind:
            aggregate = _AGGREGATES[kind]
            column = "" if field == "*" and aggregate == "count" else before.column(field, vertex.fail)
            aggregates[name] = Aggregate(aggregate, "" if aggregate == "count" else column)
            chosen[name] = name
        else:
            chosen[name] = before.column(field, vertex.fail)
            keys[chosen[name]] = None
    if clash := [name for name in aggregates if name in keys]:
        vertex.fail(f"aggregate {clash[0]!r} has the name of a key; give it another")
    window, every_us = _window_of(before.window, before, vertex)
    flow = before.flow.key_by(*keys).window(window).aggregate(**aggregates)
    if every_us:
        flow = flow.filter(call("as_int64", WINDOW_END) % every_us == 0)
    return Track(_kept(flow, chosen), {f".{name}": name for name in chosen})


def _window_of(part: YamlPart, track: Track, vertex: Vertex) -> tuple[AnyWindow, int]:
    """A window, and the interval between the ends that count (0: all count)."""
    entries = part.entries("window", PARAMETERS["window"], hyphens=True)
    kind = _size_type(entries["size-type"])
    if "emit-type" in entries and _size_type(entries["emit-type"]) != kind:
        part.fail(f"emit-type of a window must be its size-type {kind}; got {entries['emit-type'].shown}")
    size = entries["size"].number("size")
    jump = entries["jump"].number("jump") if "jump" in entries else size
    if size < 1 or jump < 1:
        part.fail(f"size and jump of a window must be positive; got size {size}, jump {jump}")
    try:
        if kind == "TUPLE_COUNT":
            return Rows(size, jump), 0
        slide = math.gcd(size, jump)
        every_us = 0 if slide == jump else jump
        if kind == "PROCESSING_TIME":
            return Window(size, slide, clock="processing"), every_us
        field = entries["external-timestamp-field"].text("field") if "external-timestamp-field" in entries else ""
        column = track.column(field, vertex.fail) if field else ""
        return Window(size, slide, on="" if column == track.flow.time else column), every_us
    except GraphError as error:
        part.fail(str(error))


def _matched(vertex: Vertex, entries: Mapping[str, YamlPart], before: Track) -> Track:
    """A pattern: conditions in a filter's form, measures such as `first(A.ts) started`, `within` in microseconds."""
    if missing := [key for key in ("pattern", "within", "measures") if key not in entries]:
        vertex.fail(f"parameter {missing[0]!r} is missing; there must be pattern, within and measures")
    if before.window is not None:
        vertex.fail("a pattern must not stand between a window and its select")
    define: dict[str, Expression] = {}
    for name, part in entries["define"].entries("define").items() if "define" in entries else ():
        said = predicate(vertex, part.entries("condition", FILTER_KEYS, hyphens=True))
        define[name] = condition(vertex, before, *said)
    measures: dict[str, str] = {}
    for item in entries["measures"].items("measures"):
        text, _, name = item.text("measure").rpartition(" ")
        if not text or not name.isidentifier():
            item.fail(f"a measure must be followed by a name, as in 'first(A.ts) started'; got {item.shown}")
        measures[name] = text
    texts: dict[str, Any] = {key: entries[key].text(key) for key in ("after", "selection") if key in entries}
    flow = before.flow.key_by(*before.keys).match(
        entries["pattern"].text("pattern"),
        within_s=entries["within"].number("within") / MICROSECONDS,
        measures=measures,
        define=define,
        **texts,
    )
    return Track(flow, {f".{name}": name for name in flow.schema.names})
