"""The kernels that must pass the conformance tests, each with its oracle; a new kernel is one more entry of `CASES`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from tests.conformance.oracles import (
    LEFT,
    PORT,
    RIGHT,
    TYPES,
    Answer,
    Event,
    Oracle,
    joined_in_sql,
    ranks_in_sql,
    row_by_row,
    row_windows_in_sql,
    sessions_in_sql,
    windows_in_sql,
)

from shoal.kernels.aggregate import WINDOW, WINDOW_END, AggregateKernel
from shoal.kernels.block import ARROW_TYPES, Block
from shoal.kernels.panes import PaneShape
from shoal.kernels.table import INSTANCE
from shoal.model.aggregate import (
    Aggregate,
    approx_distinct,
    count,
    count_distinct,
    max_,
    mean,
    min_,
    stddev,
    sum_,
    top_k,
    user_aggregate,
    variance,
)
from shoal.model.expression import col
from shoal.model.pattern import prev
from shoal.model.schema import TIME
from shoal.model.window import Rows, Session, Window
from shoal.query.build import kernel_of
from shoal.query.flow import Flow
from shoal.query.stream import Stream

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
        PORT: st.integers(0, 1),
    }
)
Same = Callable[[Any, Any], bool]


def nearly(got: float, wanted: float) -> bool:
    """Equal but for the last digits of a float."""
    return abs(got - wanted) <= 1e-12 * max(abs(got), abs(wanted))


def about(got: int, wanted: int) -> bool:
    """Equal but for what an estimate may be wrong by."""
    return abs(got - wanted) <= max(2, 0.05 * wanted)


@dataclass(frozen=True)
class KernelCase:
    """A kernel, what an event's instance is, and the answers it must give for a set of events, none of them late.

    `names`: the columns of its answers. `ports`: its inputs. `adapted`: events in the form that makes it work hardest.
    `same`: columns whose values need not be equal, and what they must be instead.
    """

    id: str
    kernel: Any
    oracle: Oracle
    names: tuple[str, ...]
    ports: int = 1
    adapted: Callable[[Event], Event] = field(default=lambda event: event)
    instance_of: Callable[[Event], int] = field(default=lambda event: int(event[INSTANCE]))
    same: Mapping[str, Same] = field(default_factory=dict)

    def bound(self, events: Sequence[Event]) -> list[Event]:
        """Events with the instance and the input that the case says."""
        adapted = [dict(self.adapted(event)) for event in events]
        return [{**e, INSTANCE: self.instance_of(e), PORT: e[PORT] % self.ports} for e in adapted]

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
        if not block.length:
            return []
        found = dict(block.columns)
        if WINDOW in found:
            found[WINDOW_END] = found[WINDOW] * self.kernel.window.slide_us
        columns = [found[name] for name in (INSTANCE, *self.names)]
        return list(zip(*(c.to_pylist() if isinstance(c, pa.Array) else c.tolist() for c in columns), strict=True))

    def disagreement(self, got: Sequence[Answer], wanted: Sequence[Answer]) -> str:
        """The first answers that are not the same, in whatever order they came; nothing where all are."""
        if len(got) != len(wanted):
            return f"got {len(got)} answers {sorted(got)}; wanted {len(wanted)}: {sorted(wanted)}"
        checks = [self.same.get(name, _equal) for name in (INSTANCE, *self.names)]
        for one, other in zip(sorted(got), sorted(wanted), strict=True):
            if not all(check(a, b) for check, a, b in zip(checks, one, other, strict=True)):
                return f"got {one}; wanted {other}"
        return ""


def _equal(got: Any, wanted: Any) -> bool:
    return bool(got == wanted)


def windowed(
    id_: str,
    window: Window,
    keys: Sequence[str],
    aggregates: Mapping[str, Aggregate],
    instance_of: Callable[[Event], int] | None = None,
    same: Mapping[str, Same] | None = None,
) -> KernelCase:
    """A windowed aggregate; with `instance_of`, its keys alone tell the instance."""
    used = {*keys, *(aggregate.column for aggregate in aggregates.values())}
    types = tuple((name, type_) for name, type_ in TYPES.items() if name in used)
    shape = PaneShape(tuple(keys), window, tuple(aggregates.items()), types, by_instance=instance_of is None)
    kernel = AggregateKernel(shape, "ts")
    oracle = windows_in_sql(window, keys, list(aggregates.values()))
    case = KernelCase(id_, kernel, oracle, (WINDOW_END, *keys, *aggregates), same=same or {})
    return case if instance_of is None else replace(case, instance_of=instance_of)


EVENT_FLOW = Stream(LEFT, TYPES, time="ts")
OTHER_FLOW = Stream(RIGHT, TYPES, time="ts")
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
    """The kernel of a flow's last operator; `timed`: the oracle tells the answers' event time, too."""
    operator = flow.operators[-1]
    before = {each.id: each for each in flow.operators}[operator.inputs[0]]
    kernel = kernel_of(operator, before if before.kind == "window" else None, "", by_instance=True)
    names = (*flow.schema.names, TIME) if timed else flow.schema.names
    return KernelCase(id_, kernel, oracle, names, len(operator.inputs), adapted, same=same or {})


def sessions(id_: str, gap_us: int, keys: Sequence[str], aggregates: Mapping[str, Aggregate]) -> KernelCase:
    """Aggregates over sessions."""
    window = Session(gap_us)
    flow = EVENT_FLOW.key_by(*keys).window(window).aggregate(**aggregates)
    return of_flow(id_, flow, sessions_in_sql(window, keys, list(aggregates.values())), same=SAME)


def row_windows(id_: str, window: Rows, keys: Sequence[str], aggregates: Mapping[str, Aggregate]) -> KernelCase:
    """Aggregates over windows of so many rows."""
    flow = EVENT_FLOW.key_by(*keys).window(window).aggregate(**aggregates)
    oracle = row_windows_in_sql(window, keys, list(aggregates.values()), list(TYPES))
    return of_flow(id_, flow, oracle, same=SAME)


def external(id_: str, window: Window, keys: Sequence[str], aggregates: Mapping[str, Aggregate]) -> KernelCase:
    """Aggregates over windows of another time than event time."""
    flow = EVENT_FLOW.key_by(*keys).window(window).aggregate(**aggregates)
    return of_flow(id_, flow, row_by_row(flow), lambda event: {**event, "seen": event["seen"] % 50}, SAME)


def ranked(
    id_: str, by: str | Sequence[tuple[str, bool]], k: int, keys: Sequence[str] = (), *, ties: bool = False
) -> KernelCase:
    """The first rows of every time; times are few, so that there is something to rank."""
    flow = EVENT_FLOW.key_by(*keys).rank(by, k, ties=ties)
    oracle = ranks_in_sql(flow.operators[-1].parameters)
    return of_flow(id_, flow, oracle, lambda event: {**event, "ts": event["ts"] // 30 * 30, "n": event["n"] % 4})


def deduplicated(id_: str, within_us: int, keys: Sequence[str]) -> KernelCase:
    """Rows whose keys were not kept a short time before."""
    flow = EVENT_FLOW.key_by(*keys).deduplicate(within_us * US)
    return of_flow(id_, flow, row_by_row(flow))


def joined(
    id_: str,
    within_us: tuple[int, int],
    condition: str = "TRUE",
    adapted: Callable[[Event], Event] = dict,
    **terms: Any,
) -> KernelCase:
    """Pairs of rows of two inputs; `condition` is the one of `where` in SQL."""
    ours = EVENT_FLOW.select("ts", "road", "kind", "n", "speed")
    theirs = OTHER_FLOW.select("ts", "road", "toll", "day", "n", "speed", "kind")
    flow = ours.join(theirs, within_s=(within_us[0] * US, within_us[1] * US), **terms)
    return of_flow(id_, flow, joined_in_sql(flow.operators[-1].parameters, condition), adapted, timed=True)


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


def matched(id_: str, pattern: str, within_us: int, keys: Sequence[str] = ("road",), **terms: Any) -> KernelCase:
    """Matches of a pattern, in rows of few columns and values, so that many are equal."""
    flow = EVENT_FLOW.select("ts", "road", "n").key_by(*keys)
    said = {name: what for name, what in MEASURES.items() if "A" in pattern and ("B" in pattern or "B" not in what)}
    define = {name: condition for name, condition in DEFINE.items() if name in pattern} | terms.pop("define", {})
    flow = flow.match(pattern, within_s=within_us * US, measures=said, define=define, **terms)
    return of_flow(id_, flow, row_by_row(flow), few_values)


def few_values(event: Event) -> Event:
    """An event of which many others are equals."""
    return {**event, "ts": event["ts"] // 4, "n": event["n"] % 4, "road": event["road"] % 2}


class Spread:
    """A user's aggregate: the largest integer less the smallest."""

    def zero(self) -> list[int]:
        return []

    def add(self, state: list[int], values: list[int]) -> list[int]:
        return self.merge(state, values)

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        both = [*one, *other]
        return [min(both), max(both)]

    def result(self, state: list[int]) -> int:
        return state[1] - state[0]


class Longest:
    """A user's aggregate: the longest text."""

    def zero(self) -> str:
        return ""

    def add(self, state: str, values: list[str]) -> str:
        return max([state, *values], key=lambda text: (len(text), text))

    def merge(self, one: str, other: str) -> str:
        return self.add(one, [other])

    def result(self, state: str) -> str:
        return state


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
DISTINCT = {"kinds": count_distinct("kind"), "numbers": count_distinct("n"), "tolls": count_distinct("toll")}
SPREAD = {"var": variance("speed"), "dev": stddev("speed"), "n_var": variance("n")}
ESTIMATES = {"kinds": approx_distinct("kind"), "numbers": approx_distinct("n")}
OWN = {"range": user_aggregate(Spread, "n", "int64"), "longest": user_aggregate(Longest, "kind", "string")}
SAME: Mapping[str, Same] = {"var": nearly, "dev": nearly, "n_var": nearly}
SOME = {"events": count(), "total": sum_("n"), "top": top_k("speed", 2), "var": variance("speed")} | DISTINCT | OWN
PLAIN = {"events": count(), "total": sum_("n"), "high": max_("speed"), "kinds": count_distinct("kind")}
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
    windowed("tumbling variances per text", TUMBLING, ["kind"], SPREAD, same=SAME),
    windowed("hopping numbers of different values", HOPPING, ["road"], DISTINCT),
    windowed("hopping estimates of different values", HOPPING, [], ESTIMATES, same=dict.fromkeys(ESTIMATES, about)),
    windowed("hopping aggregates of the user's own", HOPPING, ["toll"], OWN),
    sessions("sessions per integer", 7, ["road"], SOME),
    sessions("sessions without keys", 3, [], {"events": count(), "n_var": variance("n")}),
    sessions("sessions per text and boolean", 20, ["kind", "toll"], {"avg": mean("speed")} | DISTINCT),
    row_windows("windows of three rows, one after another", Rows(3, 3), ["road"], SOME),
    row_windows("windows of five rows every two", Rows(5, 2), ["kind"], SOME),
    row_windows("windows of four rows every one, also while filling", Rows(4, 1, partial=True), ["toll"], SOME),
    row_windows("windows of six rows every four, also while filling", Rows(6, 4, partial=True), [], {"n": count()}),
    external("tumbling windows by an external time", Window(10, 10, on="seen"), ["road"], PLAIN),
    external("hopping windows by an external time", Window(12, 4, on="seen"), [], PLAIN),
    external("hopping windows by an external time per text", Window(30, 10, on="seen"), ["kind"], PLAIN),
    ranked("the two largest of one time", "n", 2),
    ranked(
        "the first of one time and key by three columns", [("toll", False), ("kind", True), ("n", True)], 1, ["road"]
    ),
    ranked("the three largest of one time with ties", "n", 3, ties=True),
    ranked("the two smallest speeds per text with ties", [("n", False), ("toll", True)], 2, ["kind"], ties=True),
    deduplicated("rows once in ten microseconds per integer", 10, ["road"]),
    deduplicated("rows once in forty microseconds per two keys", 40, ["kind", "toll"]),
    joined("an equi join of rows close in time", (-10, 10), on="road"),
    joined("an equi join by two keys, the other side before", (-20, -3), on=("road", "kind")),
    joined("an equi join with rows that come later", (5, 15), on="kind"),
    joined("a join within a time alone", (-2, 2)),
    joined("a band join of floats", (-20, 20), on="road", band=("speed", "speed", -1.5, 1000.0)),
    joined("a band join of integers open above", (-20, 20), band=("n", "n", 1, None)),
    joined("a band join of integers open below", (0, 20), on="kind", band=("n", "n", None, 0.5)),
    joined("a join with a condition", (-15, 15), f"{LEFT}.n < {RIGHT}.n", on="road", where=col("n") < col("n_right")),
    joined("a left join", (-5, 10), how="left", on="road", defaults={"n_right": -1}),
    joined("a left join with the other side before", (-12, -4), how="left", on="kind"),
    joined(
        "a left join with band and condition",
        (-20, 20),
        f"{LEFT}.kind <> {RIGHT}.kind",
        how="left",
        on="road",
        band=("n", "n", -5, 5),
        where=col("kind") != col("kind_right"),
    ),
    joined("a full join", (-5, 10), how="full", on=("road", "kind"), defaults={"speed": -1.0, "toll": True}),
    joined("a full join with the other side later", (3, 9), how="full", on={"road": "n"}, adapted=few_values),
    matched("the strict pattern A B", "A B", 5),
    matched("the strict pattern A+ B", "A+ B", 4),
    matched("the strict pattern A* (B | C) with every beginning", "A* (B | C)", 6, after="next_row"),
    matched("the strict pattern A+? B? C{1,2} without keys", "A+? B? C{1,2}", 3, ()),
    matched("the pattern A B C with rows passed over", "A B C", 8, selection="next"),
    matched("the pattern A+ !C B with rows passed over", "A+ !C B", 6, selection="next"),
    matched(
        "the pattern A !C B+? A with rows passed over and every beginning",
        "A !C B+? A",
        9,
        selection="next",
        after="next_row",
    ),
    matched(
        "a pattern that looks at the row before",
        "A B+",
        6,
        (),
        define={"A": col("n") > prev("n"), "B": col("n") <= prev("n")},
    ),
    matched(
        "every beginning of a pattern that looks at the row before",
        "A+ B",
        6,
        after="next_row",
        define={"A": col("n") >= prev("n"), "B": col("n") < prev("n")},
    ),
)
