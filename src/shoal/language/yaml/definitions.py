"""Stream definitions and datasets of a graph file: what is read, and from where."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from shoal.errors import ShoalError, did_you_mean
from shoal.language.python.stream import Stream
from shoal.language.yaml.document import YamlPart
from shoal.model.query.duration import MICROSECONDS, text_us
from shoal.model.query.schema import NOT_NULL

TYPES: Mapping[str, str] = {
    "int": "int64",
    "long": "int64",
    "float": "float64",
    "double": "float64",
    "string": "string",
    "bool": "bool",
    "timestamp": "timestamp",
    "long-timestamp": "timestamp",
}
"""Types in a tuple format and what they are here."""
DEFINITION_KEYS = (
    "stream-id",
    "name",
    "tuple-format",
    "rowtime-column",
    "lateness-s",
    "max-ahead-s",
    "idle-s",
    "id",
    "intermediary-stream",
)
"""The last two are Expose's: the number once more, and whether queries make the stream, which changes nothing."""
TIME_UNITS = ("s", "ms", "us", "ns")
DATASET_KEYS = ("id", "name", "file", "type", "format", "stream", "follow", "time-unit")
GENERATOR_KEYS = ("generator", "events", "seed")
"""The keys of a dataset that is generated, where a file may have such."""
DATASET_TYPES = ("csv", "yaml")
FORMATS = ("parquet", "arrow", "csv")


@dataclass(frozen=True)
class StreamDefinition:
    """A stream as a file declares it; it is checked when a query reads it.

    `tick_ns`: nanoseconds per tick of the event-time column, where a dataset has it as a number.
    """

    id: str
    name: str
    columns: Mapping[str, str]
    time: str
    tick_ns: int | None
    lateness_s: float
    max_ahead_s: float | None
    idle_s: float | None
    part: YamlPart

    def stream(self) -> Stream:
        """The stream a query begins with."""
        if not self.time:
            self.part.fail(f"stream {self.name!r} needs a rowtime-column, or a column of type timestamp, to be read")
        try:
            return Stream(
                self.name,
                self.columns,
                time=self.time,
                lateness_s=self.lateness_s,
                max_ahead_s=self.max_ahead_s,
                idle_s=self.idle_s,
            )
        except ShoalError as error:
            self.part.fail(str(error))


@dataclass(frozen=True)
class Dataset:
    """Where events are stored: a file of DCEP-Sim's (`type`), or a directory of files of one stream (`format`).

    Or they are made: by the `generator` of a workload, so many and with this seed.
    """

    file: str
    type: str
    format: str
    stream: str
    follow: bool
    part: YamlPart
    time_unit: str | None = None
    id: str = ""
    name: str = ""
    generator: str = ""
    events: int = 0
    seed: int = 0


def definitions(part: YamlPart | None) -> dict[str, StreamDefinition]:
    """Stream definitions by name."""
    found: dict[str, StreamDefinition] = {}
    ids: set[str] = set()
    for item in part.items("stream-definitions") if part else ():
        defined = _definition(item)
        if defined.name in found or (defined.id and defined.id in ids):
            item.fail(
                f"stream {defined.name!r} (stream-id {defined.id or 'none'}) is defined twice; "
                "each needs its own name and id"
            )
        found[defined.name] = defined
        ids.add(defined.id)
    return found


def _definition(item: YamlPart) -> StreamDefinition:
    entries = item.entries("stream definition", DEFINITION_KEYS, hyphens=True)
    for key in ("name", "tuple-format"):
        if key not in entries:
            item.fail(f"a stream definition must have a {key}")
    # names with spaces and the like occur in DCEP-Sim's files
    name = re.sub(r"\W", "_", entries["name"].text("name of a stream"))
    columns: dict[str, str] = {}
    for field in entries["tuple-format"].items("tuple-format"):
        parts = field.entries("field", ("name", "type"))
        if set(parts) != {"name", "type"}:
            field.fail(f"a field must have a name and a type; got {field.shown}")
        written = parts["type"].text("type of a field")
        type_ = written.removesuffix(NOT_NULL)
        if type_ not in TYPES:
            near = did_you_mean(type_, TYPES)
            parts["type"].fail(
                f"type of a field must be one of {', '.join(TYPES)}, perhaps with {NOT_NULL.strip()!r} behind it; "
                f"got {written!r}{near}"
            )
        column = parts["name"].text("name of a field")
        if column in columns:
            field.fail(f"stream {name!r} has field {column!r} twice")
        columns[column] = TYPES[type_] + written.removeprefix(type_)
    time, tick_ns = _rowtime(
        entries.get("rowtime-column"), {each: type_.removesuffix(NOT_NULL) for each, type_ in columns.items()}, name
    )
    return StreamDefinition(
        _stream_id(entries),
        name,
        columns | ({time: "timestamp"} if time else {}),
        time,
        tick_ns,
        _seconds(entries.get("lateness-s"), "lateness-s", 0.0) or 0.0,
        _seconds(entries.get("max-ahead-s"), "max-ahead-s", 86_400.0),
        _seconds(entries.get("idle-s"), "idle-s", None),
        item,
    )


def _stream_id(entries: Mapping[str, YamlPart]) -> str:
    """The number of a stream, which Expose writes twice; empty if it has none."""
    said = {key: entries[key].text(key) for key in ("stream-id", "id") if key in entries}
    if len(set(said.values())) > 1:
        entries["id"].fail(
            f"id of a stream must be its stream-id {said['stream-id']}, or be left out; got {said['id']}"
        )
    return next(iter(said.values()), "")


def _rowtime(part: YamlPart | None, columns: Mapping[str, str], name: str) -> tuple[str, int | None]:
    """The event-time column and its ticks; by default the first timestamp."""
    if part is None:
        return next((column for column, type_ in columns.items() if type_ == "timestamp"), ""), None
    entries = part.entries("rowtime-column", ("column", "nanoseconds-per-tick"), hyphens=True)
    if "column" not in entries:
        part.fail("rowtime-column must have a column")
    column = entries["column"].text("column of rowtime-column")
    if column.isdigit() and int(column) < len(columns):
        column = list(columns)[int(column)]
    if columns.get(column) not in ("timestamp", "int64"):
        entries["column"].fail(
            f"rowtime-column of stream {name!r} must be a timestamp or long of {', '.join(columns)}; got {column!r}"
        )
    ticks = entries.get("nanoseconds-per-tick")
    tick_ns = ticks.number("nanoseconds-per-tick") if ticks else None
    if tick_ns is not None and not 1 <= tick_ns <= 86_400 * MICROSECONDS * 1000:
        part.fail(f"nanoseconds-per-tick must be between 1 and a day; got {tick_ns}")
    return column, tick_ns


def _seconds(part: YamlPart | None, what: str, default: float | None) -> float | None:
    if part is None:
        return default
    value = part.data()
    us = text_us(value) if isinstance(value, str) else None
    if us is not None:
        return us / MICROSECONDS
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        part.fail(f'{what} must be a number of seconds, or a text such as "90 s"; got {part.shown}')
    return value


def datasets(part: YamlPart | None, generators: Collection[str] = ()) -> tuple[Dataset, ...]:
    """The datasets of a file, in its order; they can be generated if there are names of generators."""
    return tuple(_dataset(item, generators) for item in part.items("datasets")) if part else ()


def _dataset(item: YamlPart, generators: Collection[str]) -> Dataset:
    entries = item.entries("dataset", (*DATASET_KEYS, *(GENERATOR_KEYS if generators else ())), hyphens=True)
    if "generator" in entries:
        return _generated(item, entries, generators)
    if "file" not in entries:
        item.fail(f"a dataset must have a file{', or a generator' if generators else ''}")
    if unused := [key for key in GENERATOR_KEYS if key in entries]:
        entries[unused[0]].fail(f"{unused[0]} of a dataset is for one with a generator; this one has a file")
    said: dict[str, str] = {
        key: entries[key].text(f"{key} of a dataset")
        for key in ("file", "type", "format", "stream", "time-unit")
        if key in entries
    }
    if ("type" in said) == ("format" in said):
        item.fail("a dataset must have either a type (one file of DCEP-Sim's) or a format (a directory of files)")
    for key, known in (("type", DATASET_TYPES), ("format", FORMATS)):
        if said.get(key, known[0]) not in known:
            entries[key].fail(f"{key} of a dataset must be one of {', '.join(known)}; got {said[key]!r}")
    follow = entries["follow"].data() if "follow" in entries else False
    if not isinstance(follow, bool) or (follow and "type" in said):
        item.fail("follow of a dataset must be true or false, and is for directories of files")
    unit = said.get("time-unit")
    if unit is not None and ("type" in said or unit not in TIME_UNITS):
        item.fail(f"time-unit of a dataset must be {', '.join(TIME_UNITS)}, and is for directories of files")
    return Dataset(
        said["file"],
        said.get("type", ""),
        said.get("format", ""),
        said.get("stream", ""),
        follow,
        item,
        unit,
        *_identity(entries),
    )


def _identity(entries: Mapping[str, YamlPart]) -> tuple[str, str]:
    """The id and the name of a dataset; both may be missing."""
    id_, name = (entries[key].text(f"{key} of a dataset") if key in entries else "" for key in ("id", "name"))
    return id_, name


def _generated(item: YamlPart, entries: Mapping[str, YamlPart], generators: Collection[str]) -> Dataset:
    """A dataset that a generator makes."""
    if unused := [key for key in entries if key not in ("id", "name", *GENERATOR_KEYS)]:
        entries[unused[0]].fail(f"{unused[0]} of a dataset is for one with a file; this one has a generator")
    name = entries["generator"].text("generator of a dataset")
    if name not in generators:
        near = did_you_mean(name, generators)
        entries["generator"].fail(f"generator of a dataset must be one of {', '.join(generators)}; got {name!r}{near}")
    if "events" not in entries:
        item.fail("a dataset with a generator must say how many events, as in 'events: 100000'")
    events = entries["events"].number("events of a dataset")
    if events < 1:
        entries["events"].fail(f"events of a dataset must be at least 1; got {events}")
    seed = entries["seed"].number("seed of a dataset") if "seed" in entries else 0
    return Dataset("", "", "", "", False, item, None, *_identity(entries), name, events, seed)
