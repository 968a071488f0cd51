"""Cases of kernels that go by place: versions of keyed rows, and points in ranges.

The columns of events are given other meanings: `road` is the cell, (`speed`, `n`) a place, `far` the size of a range.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.conformance.kernel_case import (
    EVENT_FLOW,
    NULLABLE_FLOW,
    OTHER_FLOW,
    OTHER_NULLABLE_FLOW,
    KernelCase,
    of_flow,
)
from tests.conformance.oracles import PORT, Event, row_by_row

from shoal.kernels.columns.table import INSTANCE
from shoal.language.python.fences import fence_events
from shoal.language.python.spatial import RangeTerms, range_match
from shoal.model.query.expression import Expression
from shoal.model.spatial.grid import WORLD, Grid
from shoal.model.spatial.shape import Shape, circle, point, polygon, rectangle

PLANE = Grid((0.0, 0.0, 8.0, 8.0), 2, 2)
GLOBE = Grid(WORLD, 4, 2, "degrees")
BOX, ROUND, RINGS = rectangle("speed", "n", "far", "far"), circle("speed", "n", "far"), polygon("kind")
TEXTS = (
    "POLYGON ((0 0, 8 0, 8 8, 0 8, 0 0), (2 2, 6 2, 6 6, 2 6, 2 2))",
    "POLYGON ((0 0, 4 0, 0 4, 0 0))",
    "MULTIPOLYGON (((0 0, 2 0, 2 2, 0 2, 0 0)), ((5 5, 8 5, 8 8, 5 8, 5 5)))",
    "POLYGON ((8 0, 8 8, 1 4, 8 0))",
)


def versioned(id_: str, keys: Sequence[str], action: str | None, *, nulls: bool = False) -> KernelCase:
    """Versions of rows of few keys and times, so that many change a key at one time."""
    flow = (NULLABLE_FLOW if nulls else EVENT_FLOW).select("ts", "road", "kind", "toll", "n", "speed")
    flow = flow.key_by(*keys).versions(action=action, deleted="truck")

    def alike(event: Event) -> Event:
        n, speed = event["n"] % 4, (math.nan if nulls and event["toll"] else 0.5)
        few = {**event, "ts": event["ts"] // 5, "n": n, "speed": speed}
        if not nulls:
            return few
        missing = {"road": event["road"] == 2, "kind": event["kind"] == "", "n": n == 0, "toll": n == 1}
        return {name: None if missing.get(name) else value for name, value in few.items()}

    return of_flow(id_, flow, row_by_row(flow), alike)


def fenced(id_: str, keys: Sequence[str], fence: str, dwell_us: int | None, *, nulls: bool = False) -> KernelCase:
    """Objects in few fences, often in none, at few times."""
    flow = (NULLABLE_FLOW if nulls else EVENT_FLOW).select("ts", "road", "kind", "toll")
    flow = fence_events(flow.key_by(*keys), fence, dwell_us)

    def alike(event: Event) -> Event:
        few = {**event, "ts": event["ts"] // 3}
        return {**few, "kind": None if event["n"] % 3 else event["kind"], "toll": event["n"] % 2 == 0} if nulls else few

    return of_flow(id_, flow, row_by_row(flow), alike)


def in_ranges(
    id_: str, shape: Shape, *, ends: bool, grid: Grid = PLANE, where: Expression | None = None, nulls: bool = False
) -> KernelCase:
    """Points in ranges; with `ends` they are versions of few ids, each with one beginning and one end at most."""
    points = (NULLABLE_FLOW if nulls else EVENT_FLOW).select("ts", "road", "speed", "n", "toll")
    others = OTHER_NULLABLE_FLOW if ends or nulls else OTHER_FLOW
    ranges = others.select("ts", "road", "speed", "n", "far", "kind", "toll", "day", "observed")
    terms = RangeTerms(grid, point("speed", "n"), shape, where, "_range", 1, ("kind",) if ends else ())
    flow = range_match(points, ranges, terms, ("road", "road"), ("day", "observed") if ends else ())
    located = _on_globe if grid is GLOBE else _in_plane

    def adapted(event: Event) -> Event:
        changed = {**event, "road": event["road"] % 2, "ts": event["ts"] // 4}
        changed["kind"] = TEXTS[len(event["kind"]) % 4] if shape is RINGS else event["kind"]
        if ends and event[PORT] == 1:
            changed = _living(changed)
        if nulls:
            changed["toll"] = None if changed["n"] % 3 == 0 else changed["toll"]
            changed["kind"] = changed["kind"] or None
        return {**changed, **located(changed["n"])}

    names = tuple(name for name in flow.schema.names if name != "ts_range")
    case = of_flow(id_, flow, row_by_row(flow.select(*names)), adapted)
    ours, theirs = case.kernel.outputs
    kernel = replace(case.kernel, outputs=(ours, tuple(pair for pair in theirs if pair[0] != "ts_range")))
    return replace(case, kernel=kernel, names=names, distinct=_version if ends else None)


def _in_plane(number: int) -> dict[str, Any]:
    """A place on a small grid of places; of rectangles, the corner near the origin and the larger coordinate."""
    return {"speed": float(number % 5), "n": number // 5 % 5, "far": 2 + number // 3 % 4}


def _on_globe(number: int) -> dict[str, Any]:
    """A place near the date line or a pole, and a radius in metres."""
    x, y = (179.5, -179.5, 180.0, 0.0, 540.0)[number % 5], (90, -89, 0, 1, 60)[number // 5 % 5]
    return {"speed": x, "n": y, "far": (0, 200_000, 10_000_000, 21_000_000)[number // 3 % 4]}


def _living(event: Event) -> dict[str, Any]:
    """A row that begins or ends a version: what it has, but for its time, follows from id, cell and beginning."""
    since = event["ts"] // 5 * 5
    number = 7 * len(event["kind"]) + since + 3 * event["road"]
    until = since + 1 + number % 4 * 8
    time, ended = (until, until) if event["n"] % 2 else (since, None)
    return {**event, "n": number, "toll": number % 2 == 0, "day": since, "ts": time, "observed": ended}


def _version(event: Event) -> Any:
    """What there is at most one of; all points are different."""
    if event[PORT] == 0:
        return id(event)
    return event[INSTANCE], event["road"], event["kind"], event["day"], event["observed"] is None
