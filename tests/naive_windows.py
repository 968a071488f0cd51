"""Windows and aggregates row by row: every window is the list of its rows."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from tests.naive_expressions import Row, order_of

TIME = "#time"


class Piece(NamedTuple):
    """One window of one key: where it ends, what it holds, and the event time of its result."""

    end: int
    rows: Sequence[Row]
    time: int
    start: int | None = None


def in_order(rows: Sequence[Row], types: Mapping[str, str]) -> list[Row]:
    """Rows by event time, and by their columns where that is equal."""
    return sorted(rows, key=lambda row: (row[TIME], [order_of(row[name]) for name in types]))


def by_key(rows: Sequence[Row], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows per key."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def aggregated(rows: Sequence[Row], window: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The results of an aggregate behind a window."""
    results = []
    keys = parameters["keys"]
    for key, group in by_key(in_order(rows, parameters["types"]), keys).items():
        for piece in pieces(group, window):
            result: dict[str, Any] = dict(zip(keys, key, strict=True))
            if piece.start is not None:
                result["window_start"] = piece.start
            result["window_end"] = piece.end
            for name, (kind, column, *rest) in parameters["aggregates"].items():
                values = [row[column] if column else row for row in piece.rows]
                result[name] = aggregate(kind, values, *rest)
            results.append({**result, TIME: piece.time})
    return results


def pieces(group: Sequence[Row], window: Mapping[str, Any]) -> Iterator[Piece]:
    """The windows of one key, whose rows come in order."""
    if "gap_us" in window:
        return _sessions(group, window["gap_us"])
    if "rows" in window:
        return _counted(group, window["rows"], window["jump"], window.get("partial", False))
    if window.get("clock", "event") != "event":
        raise NotImplementedError("windows of processing time are not interpreted")
    if "on" in window:
        return _external(group, window["size_us"], window["slide_us"], window["on"])
    return _timed(group, window["size_us"], window["slide_us"])


def ends_of(time: int, size: int, slide: int) -> range:
    """The ends of all windows [end - size, end) that hold a time."""
    first = (time // slide + 1) * slide
    return range(first, time + size + 1, slide)


def _timed(group: Sequence[Row], size: int, slide: int) -> Iterator[Piece]:
    windows: dict[int, list[Row]] = {}
    for row in group:
        for end in ends_of(row[TIME], size, slide):
            windows.setdefault(end, []).append(row)
    for end, rows in windows.items():
        yield Piece(end, rows, end - 1)


def _sessions(group: Sequence[Row], gap: int) -> Iterator[Piece]:
    session: list[Row] = []
    for row in group:
        if session and row[TIME] >= session[-1][TIME] + gap:
            yield _session(session, gap)
            session = []
        session.append(row)
    yield _session(session, gap)


def _session(rows: Sequence[Row], gap: int) -> Piece:
    end = rows[-1][TIME] + gap
    return Piece(end, rows, end - 1, rows[0][TIME])


def _counted(group: Sequence[Row], size: int, jump: int, partial: bool) -> Iterator[Piece]:
    for count in range(1, len(group) + 1):
        if (count - size) % jump == 0 and (count >= size or partial):
            last = group[count - 1][TIME]
            yield Piece(last, group[max(count - size, 0) : count], last)


def _external(group: Sequence[Row], size: int, slide: int, on: str) -> Iterator[Piece]:
    windows: dict[int, list[Row]] = {}
    latest = -math.inf
    for row in group:
        for end in [end for end in windows if end <= row[on]]:
            yield Piece(end, windows.pop(end), row[TIME])
        latest = max(latest, row[on])
        for end in ends_of(row[on], size, slide):
            if end > latest:
                windows.setdefault(end, []).append(row)
    for end, rows in windows.items():
        yield Piece(end, rows, group[-1][TIME])


def aggregate(kind: str, values: Sequence[Any], k: int = 0) -> Any:
    """One aggregate of the values of a window that are not null: null of none, unless it counts or lists them."""
    values = [value for value in values if value is not None]
    if kind == "top_k":
        return sorted(values, key=order_of, reverse=True)[:k]
    if kind not in _AGGREGATES:
        raise NotImplementedError(f"aggregate {kind!r} is not interpreted")
    if not values and kind not in ("count", "count_distinct", "approx_distinct"):
        return None
    return _AGGREGATES[kind](values)


def total(values: Sequence[Any]) -> Any:
    """The exact sum, rounded once."""
    if not any(isinstance(value, float) for value in values):
        return sum(values)
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


def _variance(values: Sequence[Any]) -> float:
    if len(values) < 2:
        return 0.0
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(value) for value in values]
    middle = sum(exact, Fraction(0)) / len(exact)
    return float(sum(((value - middle) ** 2 for value in exact), Fraction(0)) / (len(exact) - 1))


_AGGREGATES: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "count": len,
    "sum": total,
    "mean": lambda values: total(values) / len(values),
    "min": lambda values: min(values, key=order_of),
    "max": lambda values: max(values, key=order_of),
    "variance": _variance,
    "stddev": lambda values: math.sqrt(_variance(values)),
    "count_distinct": lambda values: len(set(values)),
    "approx_distinct": lambda values: len(set(values)),
}
