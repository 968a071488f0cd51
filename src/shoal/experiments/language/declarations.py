"""What experiments refer to: streams, datasets and queries by number, tracepoints, plots and the network."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from shoal.errors import did_you_mean
from shoal.experiments.engines.catalog import ENGINES
from shoal.experiments.experiment import DeclaredQuery, NetworkSpec, PlotSpec
from shoal.language.yaml.definitions import Dataset, StreamDefinition, datasets, definitions
from shoal.language.yaml.document import YamlPart
from shoal.language.yaml.graph_file import read_query
from shoal.workloads.catalog import WORKLOADS

SQL_KEYS = ("output-stream-id", "sql-query", "not-supported", "dependency-queries", "type", "comment")
"""The keys of a query in Expose's form beside those of a graph; the last two say nothing that is used."""
TRACEPOINT_KEYS = ("id", "name", "active", "arguments", "description", "category", "x-variable")
NETWORK_KEYS = ("bandwidth", "latency")
_BITS = re.compile(r"([0-9.]+(?:e[0-9]+)?) *([kmg]?)(?:bps|bit/s|b/s|bit)?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}


@dataclass(frozen=True)
class Declarations:
    """All that is declared outside of experiments."""

    streams: Mapping[int, StreamDefinition]
    datasets: Mapping[int, Dataset]
    queries: Mapping[int, DeclaredQuery]
    tracepoints: Mapping[int, str]
    plots: tuple[PlotSpec, ...]
    network: NetworkSpec | None


def read_declarations(top: Mapping[str, YamlPart]) -> Declarations:
    """The declarations among the entries of a file."""
    streams = definitions(top.get("stream-definitions"))
    numbered = {_number(stream.id, stream.part, "stream-id of a stream"): stream for stream in streams.values()}
    return Declarations(
        numbered,
        _datasets(top.get("datasets"), streams),
        _queries(top.get("spequeries"), streams, numbered),
        _tracepoints(top.get("tracepoints")),
        _plots(top.get("plots")),
        _network(top["network"]) if "network" in top else None,
    )


def _number(text: str, part: YamlPart, what: str) -> int:
    if not re.fullmatch("[0-9]+", text):
        part.fail(f"{what} must be a whole number, since tasks refer to it by number; got {text or 'none'}")
    return int(text)


def _datasets(part: YamlPart | None, streams: Mapping[str, StreamDefinition]) -> dict[int, Dataset]:
    found: dict[int, Dataset] = {}
    for dataset in datasets(part, WORKLOADS):
        number = _number(dataset.id, dataset.part, "id of a dataset")
        if number in found:
            dataset.part.fail(f"dataset {number} is declared twice; give one of them another id")
        if dataset.stream and dataset.stream not in streams:
            known = ", ".join(streams) or "none"
            dataset.part.fail(f"stream of a dataset must be one of {known}; got {dataset.stream!r}")
        if dataset.format and not dataset.stream:
            dataset.part.fail("a dataset with a format must say of which stream it is, as in 'stream: Bid'")
        found[number] = dataset
    return found


def _queries(
    part: YamlPart | None, streams: Mapping[str, StreamDefinition], numbered: Mapping[int, StreamDefinition]
) -> dict[int, DeclaredQuery]:
    """The queries of a file: a list, or a mapping with such a list under `queries`."""
    if part is None:
        return {}
    if part.is_mapping:
        listed = part.entries("spequeries", ("queries", "inputs", "outputs"), hyphens=True)
        if "queries" not in listed:
            part.fail("spequeries must be a list of queries, or a mapping with a key 'queries'")
        part = listed["queries"]
    found: dict[int, DeclaredQuery] = {}
    for item in part.items("spequeries"):
        query = _query(item, streams, numbered)
        if query.id in found:
            item.fail(f"query {query.id} is declared twice; give one of them another id")
        found[query.id] = query
    for query, item in zip(found.values(), part.items("spequeries"), strict=True):
        if missing := [each for each in query.needs if each not in found]:
            item.fail(f"dependency-queries of query {query.id} must be of {_ids(found)}; got {missing[0]}")
        if circle := _circle(found, query.id):
            among = ", ".join(map(str, circle))
            item.fail(f"dependency-queries must not lead in a circle; they do, among {among}: leave one of them out")
    return found


def _circle(queries: Mapping[int, DeclaredQuery], first: int) -> list[int]:
    """The queries that lead from a query back to it; none if they do not."""
    paths = [[first]]
    for path in paths:
        for each in queries[path[-1]].needs if path[-1] in queries else ():
            if each == first:
                return path
            if all(each not in other for other in paths):
                paths.append([*path, each])
    return []


def _query(
    item: YamlPart, streams: Mapping[str, StreamDefinition], numbered: Mapping[int, StreamDefinition]
) -> DeclaredQuery:
    entries = item.entries("query", ("id", "name", "operators", "edges", *SQL_KEYS), hyphens=True)
    for key in ("id", "name"):
        if key not in entries:
            item.fail(f"a query must have a key {key!r}")
    if "sql-query" not in entries and "operators" not in entries:
        item.fail("a query must have a key 'sql-query', or 'operators' and 'edges'")
    output = entries["output-stream-id"].number("output-stream-id") if "output-stream-id" in entries else None
    if output is not None and output not in numbered:
        entries["output-stream-id"].fail(f"output-stream-id must be one of {_ids(numbered)}; got {output}")
    if output is None and "sql-query" in entries:
        item.fail(f"a query in SQL must say where its results go: a key 'output-stream-id', one of {_ids(numbered)}")
    return DeclaredQuery(
        entries["id"].number("id of a query"),
        entries["name"].text("name of a query"),
        output,
        texts := _texts(entries.get("sql-query")),
        read_query(item, streams, {}, more=SQL_KEYS) if "operators" in entries else None,
        _numbers(entries.get("dependency-queries"), "dependency-queries"),
        item.where,
        _unsupported(entries.get("not-supported"), texts),
        _operators(entries.get("operators")),
    )


def _operators(part: YamlPart | None) -> dict[str, str]:
    """Names and types of a graph's operators, which have been checked."""
    listed = [item.entries("operator") for item in part.items("operators")] if part else []
    return {entries["name"].text("name"): entries["type"].text("type") for entries in listed}


def _texts(part: YamlPart | None, key: str = "sql-query") -> dict[str, str]:
    """A text for each language; empty ones are as good as none."""
    if part is None:
        return {}
    found = {name: each.data() for name, each in part.entries(key).items()}
    for name, text in found.items():
        if not isinstance(text, str | None):
            part.fail(f"{key} must have a text for each engine; got {text!r} for {name}")
    return {name: text.strip() for name, text in found.items() if text and text.strip()}


def _unsupported(part: YamlPart | None, texts: Mapping[str, str]) -> dict[str, str]:
    """The engines that cannot run a query, each with the reason."""
    found = _texts(part, "not-supported")
    for name in found:
        if part is not None and name not in ENGINES:
            part.fail(
                f"not-supported must be of engines {', '.join(ENGINES)}; got {name!r}{did_you_mean(name, ENGINES)}"
            )
        if part is not None and name in texts:
            part.fail(f"not-supported says that {name} cannot run the query, and sql-query has a text for it")
    return found


def _numbers(part: YamlPart | None, what: str) -> tuple[int, ...]:
    return tuple(item.number(f"an item of {what}") for item in part.items(what)) if part else ()


def _ids(known: Mapping[int, object]) -> str:
    return ", ".join(map(str, known)) or "none"


def _tracepoints(part: YamlPart | None) -> dict[int, str]:
    """The active tracepoints by number."""
    found: dict[int, str] = {}
    numbers: set[int] = set()
    for item in part.items("tracepoints") if part else ():
        entries = item.entries("tracepoint", TRACEPOINT_KEYS, hyphens=True)
        for key in ("id", "name"):
            if key not in entries:
                item.fail(f"a tracepoint must have a key {key!r}")
        number = entries["id"].number("id of a tracepoint")
        active = entries["active"].data() if "active" in entries else True
        if not isinstance(active, bool):
            entries["active"].fail(f"active of a tracepoint must be true or false; got {entries['active'].shown}")
        if number in numbers:
            item.fail(f"tracepoint {number} is declared twice; give one of them another id")
        numbers.add(number)
        if active:
            found[number] = entries["name"].text("name of a tracepoint")
    return found


def _plots(part: YamlPart | None) -> tuple[PlotSpec, ...]:
    found = []
    for item in part.items("plots") if part else ():
        entries = item.entries("plot", hyphens=True)
        for key in ("name", "type"):
            if key not in entries:
                item.fail(f"a plot must have a key {key!r}")
        values = {name: each.data() for name, each in entries.items() if name not in ("name", "type")}
        if wrong := [name for name, value in values.items() if isinstance(value, list | dict)]:
            entries[wrong[0]].fail(f"{wrong[0]} of a plot must be a text or a number; got {entries[wrong[0]].shown}")
        type_ = entries["type"].text("type of a plot").replace("_", "-")
        found.append(PlotSpec(entries["name"].text("name of a plot"), type_, values))
    return tuple(found)


def _network(part: YamlPart) -> NetworkSpec:
    entries = part.entries("network", NETWORK_KEYS)
    if "bandwidth" not in entries:
        part.fail("network must have a key 'bandwidth', as in {bandwidth: {tuples: 10000000, migration: 10000000}}")
    bandwidth = entries["bandwidth"].entries("bandwidth", ("tuples", "migration"))
    latency = entries["latency"].entries("latency", ("tuples", "migration")) if "latency" in entries else {}
    for key in ("tuples", "migration"):
        if key not in bandwidth:
            entries["bandwidth"].fail(f"bandwidth must have a key {key!r}: bits per second")
    return NetworkSpec(
        _bits_per_s(bandwidth["tuples"]),
        _bits_per_s(bandwidth["migration"]),
        *(_latency_us(latency[key]) if key in latency else 0.0 for key in ("tuples", "migration")),
    )


def _bits_per_s(part: YamlPart) -> float:
    found = _BITS.fullmatch(str(part.data()).strip())
    try:
        value = float(found[1]) * _FACTORS[found[2].lower()] if found else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        part.fail(f"bandwidth must be bits per second, as in 10000000 or 10Mbps; got {part.shown}")
    return value


def _latency_us(part: YamlPart) -> float:
    try:
        value = float(str(part.data()))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        part.fail(f"latency must be a number of microseconds, as in 500 for half a millisecond; got {part.shown}")
    return value
