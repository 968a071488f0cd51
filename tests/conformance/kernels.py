"""The kernels that must pass the conformance tests, each with its oracle; a new kernel is one more entry of `CASES`.

The oracle is DuckDB over all events at once: every window end on the slide's grid, joined with the events
between its start and its end. It shares no code and no idea (panes, cells, merging) with the kernels.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from shoal.kernels.aggregate import WINDOW, AggregateKernel
from shoal.kernels.block import ARROW_TYPES, Block
from shoal.kernels.panes import PaneShape
from shoal.kernels.table import INSTANCE
from shoal.model.aggregate import Aggregate, count, max_, mean, min_, sum_, top_k
from shoal.model.window import Window

Event = Mapping[str, Any]
Answer = tuple[Any, ...]
"""Instance, end of the window in microseconds, keys, aggregates."""
Oracle = Callable[[Sequence[Event]], list[Answer]]

TYPES = {
    "ts": "timestamp",
    "road": "int64",
    "far": "int64",
    "kind": "string",
    "toll": "bool",
    "day": "timestamp",
    "seen": "timestamp",
    "n": "int64",
    "speed": "float64",
}
"""Columns of the events all cases are fed with."""
INSTANCES = 3

EVENTS: st.SearchStrategy[Event] = st.fixed_dictionaries(
    {
        "ts": st.integers(-60, 60),
        "road": st.integers(-2, 2),
        "far": st.sampled_from([-(2**63), -1, 10**12, 2**63 - 1]),
        "kind": st.sampled_from(["", "car", "truck", "Fähre"]),
        "toll": st.booleans(),
        "day": st.sampled_from([-86_400_000_000, 0, 86_400_000_000]),
        "seen": st.integers(-(10**15), 10**15),
        "n": st.one_of(st.integers(-9, 9), st.integers(-(2**55), 2**55)),
        "speed": st.one_of(st.sampled_from([0.0, 0.1, 1e9, -1e9, 1e-9]), st.floats(-1e6, 1e6, allow_subnormal=False)),
        INSTANCE: st.integers(0, INSTANCES - 1),
    }
)


@dataclass(frozen=True)
class KernelCase:
    """A kernel, what an event's instance is, and the answers it must give for a set of events, none of them late."""

    id: str
    kernel: AggregateKernel
    oracle: Oracle
    instance_of: Callable[[Event], int] = field(default=lambda event: int(event[INSTANCE]))

    def block(self, events: Sequence[Event]) -> Block:
        """Events as the kernel takes them."""
        columns = {
            name: pa.array([event[name] for event in events], ARROW_TYPES[type_])  # type: ignore[index]
            for name, type_ in TYPES.items()
        }
        block = Block.from_arrow(pa.RecordBatch.from_pydict(columns))
        instances = np.array([event[INSTANCE] for event in events], np.int64)
        return Block({**block.columns, INSTANCE: instances}, block.length)

    def answers(self, block: Block) -> list[Answer]:
        """A kernel's answers as plain rows."""
        shape = self.kernel.shape
        names = [INSTANCE, WINDOW, *shape.keys, *(name for name, _ in shape.aggregates)]
        columns = [block.columns[name] for name in names]
        rows = zip(*(c.to_pylist() if isinstance(c, pa.Array) else c.tolist() for c in columns), strict=True)
        return [(instance, window * shape.window.slide_us, *rest) for instance, window, *rest in rows]


_SQL: Mapping[str, str] = {
    "count": "count(*)",
    "min": "min({column})",
    "max": "max({column})",
    "sum": "list({column})",
    "mean": "list({column})",
    "top_k": "list({column} ORDER BY {column} DESC)",
}


def _exactly(aggregate: Aggregate, value: Any) -> Any:
    """What SQL gives back as the list of values, added without rounding."""
    if aggregate.kind == "top_k":
        return value[: aggregate.k]
    if aggregate.kind == "mean":
        return math.fsum(value) / len(value)
    if aggregate.kind == "sum":
        return math.fsum(value) if isinstance(value[0], float) else sum(value)
    return value


def windows_in_sql(kernel: AggregateKernel) -> Oracle:
    """The answers of a windowed aggregate by its definition, in SQL."""
    shape, window = kernel.shape, kernel.shape.window
    keys = [INSTANCE, *shape.keys]
    results = [_SQL[aggregate.kind].format(column=aggregate.column) for _, aggregate in shape.aggregates]
    grouped = ", ".join(f'events."{key}"' for key in keys)
    query = f"""
        SELECT events."{INSTANCE}", window_end, {", ".join([*(f'events."{key}"' for key in shape.keys), *results])}
        FROM events, (SELECT unnest(range(?, ?, {window.slide_us})) AS window_end)
        WHERE window_end - {window.size_us} <= ts AND ts < window_end
        GROUP BY {grouped}, window_end
    """

    def answers(events: Sequence[Event]) -> list[Answer]:
        if not events:
            return []
        columns = [*TYPES, INSTANCE]
        table = pa.table({name: [event[name] for event in events] for name in columns})
        times = [event["ts"] for event in events]
        first = (min(times) // window.slide_us) * window.slide_us
        last = max(times) + window.size_us + window.slide_us
        duckdb.register("events", table)
        rows = duckdb.execute(query, [first, last]).fetchall()
        fixed = 2 + len(shape.keys)
        wanted = [aggregate for _, aggregate in shape.aggregates]
        return [(*row[:fixed], *map(_exactly, wanted, row[fixed:])) for row in rows]

    return answers


def windowed(
    id_: str,
    window: Window,
    keys: Sequence[str],
    aggregates: Mapping[str, Aggregate],
    instance_of: Callable[[Event], int] | None = None,
) -> KernelCase:
    """A windowed aggregate; with `instance_of`, its keys alone tell the instance."""
    used = {*keys, *(aggregate.column for aggregate in aggregates.values())}
    types = tuple((name, type_) for name, type_ in TYPES.items() if name in used)
    shape = PaneShape(tuple(keys), window, tuple(aggregates.items()), types, by_instance=instance_of is None)
    kernel = AggregateKernel(shape, "ts")
    if instance_of is None:
        return KernelCase(id_, kernel, windows_in_sql(kernel))
    return KernelCase(id_, kernel, windows_in_sql(kernel), instance_of)


TUMBLING = Window(10, 10)
HOPPING = Window(30, 5)
EVERYTHING = {
    "events": count(),
    "n_sum": sum_("n"),
    "n_mean": mean("n"),
    "speed_sum": sum_("speed"),
    "speed_mean": mean("speed"),
    "lowest": min_("n"),
    "highest": max_("n"),
    "slowest": min_("speed"),
    "fastest": max_("speed"),
    "first": min_("seen"),
    "last": max_("seen"),
    "top": top_k("speed", 3),
    "top_n": top_k("n", 2),
}

CASES: Sequence[KernelCase] = (
    windowed("tumbling count", TUMBLING, [], {"events": count()}),
    windowed("hopping count", HOPPING, [], {"events": count()}),
    windowed("windows of one microsecond", Window(1, 1), [], {"events": count(), "top": top_k("n", 2)}),
    windowed("tumbling sum of integers per integer", TUMBLING, ["road"], {"total": sum_("n")}),
    windowed("hopping sum of floats per text", HOPPING, ["kind"], {"total": sum_("speed"), "avg": mean("speed")}),
    windowed("hopping mean of integers per boolean", HOPPING, ["toll"], {"avg": mean("n")}),
    windowed(
        "hopping extremes per time", HOPPING, ["day"], {"low": min_("speed"), "high": max_("n"), "last": max_("seen")}
    ),
    windowed("tumbling top speeds per text", TUMBLING, ["kind"], {"top": top_k("speed", 3)}),
    windowed("hopping tops per far integer", HOPPING, ["far"], {"one": top_k("n", 1), "four": top_k("n", 4)}),
    windowed("everything at once", HOPPING, [], EVERYTHING),
    windowed("everything per four keys", TUMBLING, ["road", "kind", "toll", "day"], EVERYTHING),
    windowed(
        "the key tells the instance",
        HOPPING,
        ["road"],
        {"total": sum_("speed"), "top": top_k("n", 2)},
        instance_of=lambda event: int(event["road"]) % INSTANCES,
    ),
    windowed(
        "one of two keys tells the instance",
        TUMBLING,
        ["kind", "toll"],
        {"low": min_("n"), "events": count()},
        instance_of=lambda event: len(event["kind"]) % INSTANCES,
    ),
    windowed("a single instance without keys", HOPPING, [], {"avg": mean("speed")}, instance_of=lambda _: 0),
)
