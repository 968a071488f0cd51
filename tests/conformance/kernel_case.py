"""The description of a kernel for the conformance tests, and how cases of each kind are made."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from tests.conformance.oracles import (
    LEFT,
    PORT,
    RIGHT,
    TYPES,
    Event,
    Oracle,
    Result,
    count_windows_in_sql,
    joined_in_sql,
    ranks_in_sql,
    row_by_row,
    sessions_in_sql,
    windows_in_sql,
)

from shoal.compiler.build import kernel_of
from shoal.kernels.aggregate.panes import PaneShape
from shoal.kernels.aggregate.windowed import WINDOW_END, AggregateKernel
from shoal.kernels.columns.block import ARROW_TYPES, Block
from shoal.kernels.columns.parts import table_from_arrow
from shoal.kernels.columns.table import INSTANCE, Tables
from shoal.kernels.kernel import State
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import (
    Aggregate,
)
from shoal.model.query.expression import col
from shoal.model.query.functions import is_null
from shoal.model.query.schema import TIME, not_null
from shoal.model.query.window import Rows, Session, Window

INSTANCES = 3


def _squarable(value: float) -> float:
    """Zero for values whose squares are subnormal or underflow: no variance is exact there."""
    return value if abs(value) > 1e-140 else 0.0


EVENTS: st.SearchStrategy[Event] = st.fixed_dictionaries(
    {
        "ts": st.integers(-60, 60),
        "road": st.integers(-2, 2),
        "far": st.sampled_from([-(2**63), -1, 10**12, 2**63 - 1]),
        "kind": st.sampled_from(["", "car", "truck", "Fähre"]),
        "toll": st.booleans(),
        "day": st.sampled_from([-86_400_000_000, 0, 86_400_000_000]),
        "observed": st.integers(-(10**15), 10**15),
        "n": st.one_of(st.integers(-9, 9), st.integers(-(2**55), 2**55)),
        "speed": st.one_of(st.sampled_from([0.0, 0.1, 1e9, -1e9, 1e-9]), st.floats(-1e6, 1e6).map(_squarable)),
        INSTANCE: st.integers(0, INSTANCES - 1),
        PORT: st.integers(0, 1),
    }
)
NULL_AT: Mapping[str, Any] = {"road": 2, "far": -1, "kind": "", "day": 0}
"""Keys that are null in the cases with nulls."""


def with_nulls(event: Event) -> Event:
    """An event some of whose columns are null or NaN, as the values of others decide."""
    n, speed = event["n"], round(event["speed"], 3)
    changed = {name: None if event[name] == null else event[name] for name, null in NULL_AT.items()}
    changed["n"] = None if n % 3 == 0 else n
    changed["speed"] = None if n % 2 == 0 else math.nan if speed == 1e9 else speed
    changed["toll"] = None if event["observed"] % 3 == 0 else event["toll"]
    changed["observed"] = None if event["observed"] % 5 == 0 else event["observed"]
    return {**event, **changed}


Same = Callable[[Any, Any], bool]


def nearly(got: float | None, wanted: float | None) -> bool:
    """Equal up to the last digits of a float."""
    if got is None or wanted is None or math.isnan(got) or math.isnan(wanted):
        return _equal(got, wanted)
    return abs(got - wanted) <= 1e-12 * max(abs(got), abs(wanted))


def about(got: int, wanted: int) -> bool:
    """Equal up to the error of an estimate."""
    return abs(got - wanted) <= max(2, 0.05 * wanted)


SAME: Mapping[str, Same] = {"var": nearly, "dev": nearly, "n_var": nearly}
"""The last digits of variances depend on the order of addition."""


@dataclass(frozen=True)
class KernelCase:
    """A kernel, the instance of each event, and the results it must emit for a set of events, none of them late.

    `names`: the columns of its results. `ports`: its inputs. `adapted`: changes events to exercise the kernel.
    `same`: the comparison of columns that need not be equal. `distinct`: of events that are equal in it, one is used.
    """

    id: str
    kernel: Any
    oracle: Oracle
    names: tuple[str, ...]
    ports: int = 1
    adapted: Callable[[Event], Event] = field(default=lambda event: event)
    instance_of: Callable[[Event], int] = field(default=lambda event: int(event[INSTANCE]))
    same: Mapping[str, Same] = field(default_factory=dict)
    distinct: Callable[[Event], Any] | None = None

    def bound(self, events: Sequence[Event]) -> list[Event]:
        """Events with the instance and the input that the case assigns."""
        adapted = [dict(self.adapted(event)) for event in events]
        found: list[Event] = [{**e, INSTANCE: self.instance_of(e), PORT: e[PORT] % self.ports} for e in adapted]
        return found if self.distinct is None else list({self.distinct(e): e for e in reversed(found)}.values())[::-1]

    def block(self, events: Sequence[Event]) -> Block:
        """Events as a block."""
        columns = {
            name: pa.array([event[name] for event in events], ARROW_TYPES[type_])  # type: ignore[index]
            for name, type_ in TYPES.items()
        }
        block = Block.from_arrow(pa.RecordBatch.from_pydict(columns))
        instances = np.array([event[INSTANCE] for event in events], np.int64)
        return Block({**block.columns, INSTANCE: instances}, block.length)

    def results(self, block: Block) -> list[Result]:
        """A kernel's results as plain rows."""
        if not block.length:
            return []
        columns = [block.columns[name] for name in (INSTANCE, *self.names)]
        return list(zip(*map(listed, columns), strict=True))

    def disagreement(self, got: Sequence[Result], wanted: Sequence[Result]) -> str:
        """A description of the first results that differ, in any order of arrival; empty if all agree."""
        if len(got) != len(wanted):
            in_order = sorted(got, key=order_of), sorted(wanted, key=order_of)
            return f"got {len(got)} results {in_order[0]}; wanted {len(wanted)}: {in_order[1]}"
        checks = [self.same.get(name, _equal) for name in (INSTANCE, *self.names)]
        for one, other in zip(sorted(got, key=order_of), sorted(wanted, key=order_of), strict=True):
            if not all(check(a, b) for check, a, b in zip(checks, one, other, strict=True)):
                return f"got {one}; wanted {other}"
        return ""


def _equal(got: Any, wanted: Any) -> bool:
    return bool(order_of(got) == order_of(wanted))


def order_of(value: Any) -> Any:
    """A key by which values of one kind, rows and lists are sorted: NaN after other numbers, null after all."""
    if isinstance(value, tuple | list):
        return [order_of(each) for each in value]
    missing = isinstance(value, float) and math.isnan(value)
    return (value is None, missing, 0 if value is None or missing else value)


def listed(column: Any) -> list[Any]:
    """The values of a column, None for null."""
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
    return values


def windowed(
    id_: str,
    window: Window,
    keys: Sequence[str],
    aggregates: Mapping[str, Aggregate],
    instance_of: Callable[[Event], int] | None = None,
    same: Mapping[str, Same] | None = None,
    *,
    nulls: bool = False,
) -> KernelCase:
    """A windowed aggregate; with `instance_of`, its keys determine the instance. `nulls`: columns have nulls."""
    used = {*keys, *(aggregate.column for aggregate in aggregates.values())}
    types = tuple((name, type_) for name, type_ in TYPES.items() if name in used)
    nullable = tuple(name for name, _ in types) if nulls else ()
    shape = PaneShape(tuple(keys), window, tuple(aggregates.items()), types, instance_of is None, nullable)
    kernel = AggregateKernel(shape, "ts")
    oracle = windows_in_sql(window, keys, list(aggregates.values()))
    case = KernelCase(id_, kernel, oracle, (WINDOW_END, *keys, *aggregates), same=same or {})
    case = replace(case, adapted=with_nulls) if nulls else case
    return case if instance_of is None else replace(case, instance_of=instance_of)


EVENT_FLOW = Stream(LEFT, not_null(TYPES), time="ts")
OTHER_FLOW = Stream(RIGHT, not_null(TYPES), time="ts")
NULLABLE_FLOW = Stream(LEFT, TYPES, time="ts")
OTHER_NULLABLE_FLOW = Stream(RIGHT, TYPES, time="ts")
US = 1e-6


def of_flow(
    id_: str,
    flow: Flow,
    oracle: Oracle,
    adapted: Callable[[Event], Event] = lambda event: event,
    same: Mapping[str, Same] | None = None,
    *,
    timed: bool = False,
) -> KernelCase:
    """The kernel of a flow's last operator; `timed`: the oracle also has the event time of results."""
    operator = flow.operators[-1]
    before = {each.id: each for each in flow.operators}[operator.inputs[0]]
    kernel = kernel_of(operator, before if before.kind == "window" else None, "", by_instance=True)
    names = (*flow.schema.names, TIME) if timed else flow.schema.names
    return KernelCase(id_, kernel, oracle, names, len(operator.inputs), adapted, same=same or {})


def unchanged(event: Event) -> Event:
    """The event itself."""
    return event


def _events(*, nulls: bool) -> tuple[Flow, Callable[[Event], Event]]:
    """A flow of events, and what is done to them: some columns are null if `nulls`."""
    return (NULLABLE_FLOW, with_nulls) if nulls else (EVENT_FLOW, unchanged)


def sessions(
    id_: str, gap_us: int, keys: Sequence[str], aggregates: Mapping[str, Aggregate], *, nulls: bool = False
) -> KernelCase:
    """Aggregates over sessions."""
    window = Session(gap_us)
    events, adapted = _events(nulls=nulls)
    flow = events.key_by(*keys).window(window).aggregate(**aggregates)
    return of_flow(id_, flow, sessions_in_sql(window, keys, list(aggregates.values())), adapted, same=SAME)


def count_windows(
    id_: str, window: Rows, keys: Sequence[str], aggregates: Mapping[str, Aggregate], *, nulls: bool = False
) -> KernelCase:
    """Aggregates over count windows."""
    events, adapted = _events(nulls=nulls)
    flow = events.key_by(*keys).window(window).aggregate(**aggregates)
    oracle = count_windows_in_sql(window, keys, list(aggregates.values()), list(TYPES))
    return of_flow(id_, flow, oracle, adapted, same=SAME)


def external(
    id_: str, window: Window, keys: Sequence[str], aggregates: Mapping[str, Aggregate], *, nulls: bool = False
) -> KernelCase:
    """Aggregates over windows of a time other than event time."""
    events, adapted = _events(nulls=nulls)
    flow = events.filter(~is_null("observed")).key_by(*keys).window(window).aggregate(**aggregates)

    def near(event: Event) -> Event:
        return {**adapted(event), "observed": event["observed"] % 50}

    return of_flow(id_, flow, row_by_row(flow), near, SAME)


def ranked(
    id_: str,
    by: str | Sequence[tuple[str, bool]],
    k: int,
    keys: Sequence[str] = (),
    *,
    ties: bool = False,
    nulls: bool = False,
) -> KernelCase:
    """The first rows of every time; times are few, so that many rows share one."""
    events, adapted = _events(nulls=nulls)
    flow = events.key_by(*keys).rank(by, k, ties=ties)
    oracle = ranks_in_sql(flow.operators[-1].parameters)

    def alike(event: Event) -> Event:
        event = adapted(event)
        return {**event, "ts": event["ts"] // 30 * 30, "n": None if event["n"] is None else event["n"] % 4}

    return of_flow(id_, flow, oracle, alike)


def deduplicated(id_: str, within_us: int, keys: Sequence[str], *, nulls: bool = False) -> KernelCase:
    """Rows whose key was not kept within the interval before."""
    events, adapted = _events(nulls=nulls)
    flow = events.key_by(*keys).deduplicate(within_us * US)
    return of_flow(id_, flow, row_by_row(flow), adapted)


def joined(
    id_: str,
    within_us: tuple[int, int],
    condition: str = "TRUE",
    adapted: Callable[[Event], Event] = dict,
    *,
    nulls: bool = False,
    **terms: Any,
) -> KernelCase:
    """Pairs of rows of two inputs; `condition` is `where` in SQL."""
    events, others = (NULLABLE_FLOW, OTHER_NULLABLE_FLOW) if nulls else (EVENT_FLOW, OTHER_FLOW)
    ours = events.select("ts", "road", "kind", "n", "speed")
    theirs = others.select("ts", "road", "toll", "day", "n", "speed", "kind")
    flow = ours.join(theirs, within_s=(within_us[0] * US, within_us[1] * US), **terms)
    oracle = joined_in_sql(flow.operators[-1].parameters, condition)
    return of_flow(id_, flow, oracle, with_nulls if nulls else adapted, timed=True)


DEFINE = {"A": col("n") <= 1, "B": col("n") == 2, "C": col("n") == 3}
MEASURES = {
    "rows": "count(*)",
    "ayes": "count(A)",
    "began": "first(ts)",
    "ended": "last(ts)",
    "first_b": "first(B.ts)",
    "last_road": "last(A.road)",
    "total": "sum(n)",
    "low": "min(A.n)",
}
MEASURES_OF_NULLS = {
    "numbers": "count(n)",
    "speeds": "count(A.speed)",
    "first_speed": "first(A.speed)",
    "last_kind": "last(kind)",
    "kind_of_b": "first(B.kind)",
    "average": "mean(n)",
    "slowest": "min(speed)",
    "fastest": "max(B.speed)",
}


def matched(
    id_: str, pattern: str, within_us: int, keys: Sequence[str] = ("road",), *, nulls: bool = False, **terms: Any
) -> KernelCase:
    """Matches of a pattern, in rows of few columns and values, so that many rows are equal."""
    names = ("ts", "road", "n", "speed", "kind") if nulls else ("ts", "road", "n")
    flow = (NULLABLE_FLOW if nulls else EVENT_FLOW).select(*names).key_by(*keys)
    measures = {name: what for name, what in MEASURES.items() if "A" in pattern and ("B" in pattern or "B" not in what)}
    measures |= MEASURES_OF_NULLS if nulls else {}
    define = {name: condition for name, condition in DEFINE.items() if name in pattern} | terms.pop("define", {})
    flow = flow.match(pattern, within_s=within_us * US, measures=measures, define=define, **terms)
    return of_flow(id_, flow, row_by_row(flow), few_values_and_nulls if nulls else few_values)


def few_values_and_nulls(event: Event) -> Event:
    """An event that many others are equal to, with nulls."""
    event = few_values(event)
    speed = (None, math.nan, 0.5, 1.5)[int(event["speed"]) % 4]
    n, road = (None if event[name] == 0 else event[name] for name in ("n", "road"))
    return {**event, "n": n, "road": road, "speed": speed, "kind": event["kind"] or None}


def few_values(event: Event) -> Event:
    """An event that many others are equal to."""
    return {**event, "ts": event["ts"] // 4, "n": event["n"] % 4, "road": event["road"] % 2}


def processed(case: KernelCase, state: State, events: Sequence[Event], port: int) -> Block:
    """Process events of an input; returns the late ones."""
    late: Block = case.kernel.process(state, case.block(events), port)
    return late


def filled(case: KernelCase, events: Sequence[Event]) -> State:
    """A state that has processed events, with the watermark before all of them."""
    state: State = case.kernel.open()
    bound = case.bound(events)
    for port in range(case.ports):
        processed(case, state, [event for event in bound if event[PORT] == port], port)
    return state


def resent(tables: Tables) -> Tables:
    """Tables after a round trip through Arrow's stream format."""
    return {number: sent(table) for number, table in tables.items()}


def sent(table: Any) -> Any:
    """A table after a round trip through Arrow's stream format."""
    sink = pa.BufferOutputStream()
    batch = table.to_arrow()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        return table_from_arrow(reader.read_next_batch())


def blocks_of(events: Sequence[Event], draw: random.Random) -> list[Sequence[Event]]:
    """Events split at random into blocks, some of them empty."""
    cuts = sorted(draw.randint(0, len(events)) for _ in range(draw.randint(0, 5)))
    return [events[start:end] for start, end in pairwise([0, *cuts, len(events)])]
