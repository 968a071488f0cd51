"""The kernels that must pass the conformance tests, each with its oracle; a new kernel is a new entry of `CASES`."""

from collections.abc import Sequence

from tests.conformance.kernel_case import (
    INSTANCES,
    SAME,
    KernelCase,
    about,
    count_windows,
    deduplicated,
    external,
    few_values,
    joined,
    matched,
    ranked,
    sessions,
    windowed,
)
from tests.conformance.oracles import LEFT, RIGHT
from tests.conformance.spatial_cases import BOX, GLOBE, RINGS, ROUND, fenced, in_ranges, versioned

from shoal.model.query.aggregate import (
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
from shoal.model.query.expression import col
from shoal.model.query.pattern import prev
from shoal.model.query.window import Rows, Window


class Spread:
    """A user-defined aggregate: the largest integer minus the smallest."""

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
    """A user-defined aggregate: the longest text."""

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
    "first": min_("observed"),
    "last": max_("observed"),
    "top": top_k("speed", 3),
    "top_n": top_k("n", 2),
}
DISTINCT = {"kinds": count_distinct("kind"), "numbers": count_distinct("n"), "tolls": count_distinct("toll")}
SPREAD = {"var": variance("speed"), "dev": stddev("speed"), "n_var": variance("n")}
ESTIMATES = {"kinds": approx_distinct("kind"), "numbers": approx_distinct("n")}
OWN = {"range": user_aggregate(Spread, "n", "int64"), "longest": user_aggregate(Longest, "kind", "string")}
SOME = {"events": count(), "total": sum_("n"), "top": top_k("speed", 2), "var": variance("speed")} | DISTINCT | OWN
PRESENT = {"events": count(), "speeds": count("speed"), "kinds": count("kind"), "tolls": count("toll")}
PLAIN = {"events": count(), "total": sum_("n"), "high": max_("speed"), "kinds": count_distinct("kind")}
CASES: Sequence[KernelCase] = (
    windowed("tumbling count", TUMBLING, [], {"events": count()}),
    windowed("hopping count", HOPPING, [], {"events": count()}),
    windowed("windows of one microsecond", Window(1, 1), [], {"events": count(), "top": top_k("n", 2)}),
    windowed("tumbling sum of integers per integer", TUMBLING, ["road"], {"total": sum_("n")}),
    windowed("hopping sum of floats per text", HOPPING, ["kind"], {"total": sum_("speed"), "avg": mean("speed")}),
    windowed("hopping mean of integers per boolean", HOPPING, ["toll"], {"avg": mean("n")}),
    windowed(
        "hopping extremes per time",
        HOPPING,
        ["day"],
        {"low": min_("speed"), "high": max_("n"), "last": max_("observed")},
    ),
    windowed("tumbling top speeds per text", TUMBLING, ["kind"], {"top": top_k("speed", 3)}),
    windowed("hopping tops per far integer", HOPPING, ["far"], {"one": top_k("n", 1), "four": top_k("n", 4)}),
    windowed("everything at once", HOPPING, [], EVERYTHING),
    windowed("everything per four keys", TUMBLING, ["road", "kind", "toll", "day"], EVERYTHING),
    windowed(
        "the key determines the instance",
        HOPPING,
        ["road"],
        {"total": sum_("speed"), "top": top_k("n", 2)},
        instance_of=lambda event: int(event["road"]) % INSTANCES,
    ),
    windowed(
        "one of two keys determines the instance",
        TUMBLING,
        ["kind", "toll"],
        {"low": min_("n"), "events": count()},
        instance_of=lambda event: len(event["kind"]) % INSTANCES,
    ),
    windowed("a single instance without keys", HOPPING, [], {"avg": mean("speed")}, instance_of=lambda _: 0),
    windowed("tumbling variances per text", TUMBLING, ["kind"], SPREAD, same=SAME),
    windowed("hopping counts of distinct values", HOPPING, ["road"], DISTINCT),
    windowed("hopping estimates of distinct values", HOPPING, [], ESTIMATES, same=dict.fromkeys(ESTIMATES, about)),
    windowed("hopping user-defined aggregates", HOPPING, ["toll"], OWN),
    sessions("sessions per integer", 7, ["road"], SOME),
    sessions("sessions without keys", 3, [], {"events": count(), "n_var": variance("n")}),
    sessions("sessions per text and boolean", 20, ["kind", "toll"], {"avg": mean("speed")} | DISTINCT),
    count_windows("windows of three rows, one after another", Rows(3, 3), ["road"], SOME),
    count_windows("windows of five rows every two", Rows(5, 2), ["kind"], SOME),
    count_windows("windows of four rows every one, also while filling", Rows(4, 1, partial=True), ["toll"], SOME),
    count_windows("windows of six rows every four, also while filling", Rows(6, 4, partial=True), [], {"n": count()}),
    external("tumbling windows by an external time", Window(10, 10, on="observed"), ["road"], PLAIN),
    external("hopping windows by an external time", Window(12, 4, on="observed"), [], PLAIN),
    external("hopping windows by an external time per text", Window(30, 10, on="observed"), ["kind"], PLAIN),
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
    joined("an equi join with the other side later", (5, 15), on="kind"),
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
    matched("the pattern A B C with skipped rows", "A B C", 8, selection="next"),
    matched("the pattern A+ !C B with skipped rows", "A+ !C B", 6, selection="next"),
    matched(
        "the pattern A !C B+? A with skipped rows and every beginning",
        "A !C B+? A",
        9,
        selection="next",
        after="next_row",
    ),
    matched(
        "a pattern that reads the previous row",
        "A B+",
        6,
        (),
        define={"A": col("n") > prev("n"), "B": col("n") <= prev("n")},
    ),
    matched(
        "every beginning of a pattern that reads the previous row",
        "A+ B",
        6,
        after="next_row",
        define={"A": col("n") >= prev("n"), "B": col("n") < prev("n")},
    ),
    versioned("versions per integer with deletes", ["road"], "kind"),
    fenced("objects in fences by integer", ["road"], "kind", 3),
    in_ranges("points in rectangles that end", BOX, ends=True, where=col("n") > col("n_range")),
)
NULL_CASES: Sequence[KernelCase] = (
    windowed(
        "everything with nulls per four keys with nulls",
        TUMBLING,
        ["road", "kind", "toll", "day"],
        EVERYTHING | PRESENT,
        nulls=True,
    ),
    windowed(
        "hopping sets, states and variances with nulls",
        HOPPING,
        ["far"],
        SPREAD | DISTINCT | OWN | {"different": approx_distinct("kind")},
        same={**SAME, "different": about},
        nulls=True,
    ),
    sessions("sessions with nulls", 7, ["road", "kind"], SOME | PRESENT, nulls=True),
    count_windows("windows of three rows every two with nulls", Rows(3, 2), ["toll"], SOME | PRESENT, nulls=True),
    external(
        "hopping windows by an external time with nulls",
        Window(12, 4, on="observed"),
        ["kind"],
        PLAIN | PRESENT,
        nulls=True,
    ),
    ranked(
        "the first two of one time and key with nulls and ties",
        [("kind", False), ("speed", True), ("toll", False)],
        2,
        ["road"],
        ties=True,
        nulls=True,
    ),
    deduplicated("rows once in ten microseconds per two keys with nulls", 10, ["road", "toll"], nulls=True),
    joined("an equi join with nulls", (-10, 10), on=("road", "kind"), nulls=True),
    joined("a left band join with nulls", (-9, 9), how="left", band=("speed", "speed", None, 0), nulls=True),
    joined(
        "a full join with nulls and a condition",
        (-5, 10),
        f"{LEFT}.n < {RIGHT}.n",
        how="full",
        on="kind",
        where=col("n") < col("n_right"),
        defaults={"n_right": -1},
        nulls=True,
    ),
    matched("the strict pattern A+ B? with nulls", "A+ B?", 5, nulls=True),
    matched(
        "a pattern with skipped rows that reads the previous row with nulls",
        "A !C B+",
        6,
        (),
        define={"A": col("n") > prev("n"), "B": col("speed") <= prev("speed")},
        selection="next",
        nulls=True,
    ),
    versioned("versions per two keys with nulls", ["road", "toll"], None, nulls=True),
    fenced("objects in fences or nowhere", ["road", "toll"], "kind", None, nulls=True),
    in_ranges("points in polygons for ever with nulls", RINGS, ends=False, nulls=True),
    in_ranges("points in circles on a sphere that end with nulls", ROUND, ends=True, grid=GLOBE, nulls=True),
)
"""The same kernels over columns with nulls and NaN; what nulls cannot change is tested without them."""
