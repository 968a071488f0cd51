"""What queries mean, one row at a time: the slow and obvious reading of a query's operators."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.naive_expressions import value_of, wrapped

from shoal.model.query.graph import Operator, Query

Row = Mapping[str, Any]


@dataclass
class RowByRow:
    """One query that sees every row, knows the watermark before each epoch, and emits all windows in the end."""

    query: Query
    results: list[Row] = field(default_factory=list)
    late: int = 0
    _windows: dict[tuple[Any, ...], list[Row]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        inner = self.query.operators[1:-1]
        kinds = [operator.kind for operator in inner]
        cut = kinds.index("window") if "window" in kinds else len(inner)
        self._before, self._after = inner[:cut], inner[cut + 2 :]
        self._window: Operator | None = inner[cut] if cut < len(inner) else None
        self._aggregate: Operator | None = inner[cut + 1] if cut < len(inner) else None

    def process(self, rows: Iterable[Row], watermark: float) -> None:
        for row in _through(self._before, rows):
            if self._window is None or self._aggregate is None:
                self._emit(row)
            else:
                self._into_windows(row, watermark, self._window.parameters, self._aggregate.parameters)

    def drain(self) -> None:
        if self._aggregate is None:
            return
        asked = self._aggregate.parameters
        for (end, *keys), rows in self._windows.items():
            result = dict(zip(asked["keys"], keys, strict=True)) | {"window_end": end}
            for name, (kind, column, k) in asked["aggregates"].items():
                result[name] = _result(kind, [row[column] for row in rows] if column else rows, k)
            for row in _through(self._after, [result]):
                self._emit(row)

    def _into_windows(self, row: Row, watermark: float, window: Mapping[str, int], asked: Mapping[str, Any]) -> None:
        time, size, slide = row[asked["time"]], window["size_us"], window["slide_us"]
        ends = [end for end in range(time - time % slide, time + size + 1, slide) if end - size <= time < end]
        still_open = [end for end in ends if end > watermark]
        self.late += not still_open
        for end in still_open:
            self._windows[(end, *(row[key] for key in asked["keys"]))].append(row)

    def _emit(self, row: Row) -> None:
        self.results.append({"query": self.query.name} | {name: row[name] for name in self.query.columns})


def _through(operators: Sequence[Operator], rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        passed: Row | None = row
        for operator in operators:
            if passed is None:
                break
            if operator.kind == "filter":
                passed = passed if value_of(operator.parameters["condition"], passed) else None
            else:
                old = passed
                passed = {name: value_of(data, old) for name, data in operator.parameters["columns"]}
        if passed is not None:
            yield passed


def _result(kind: str, values: Sequence[Any], k: int) -> Any:
    if kind == "count":
        return len(values)
    if kind == "sum":
        return _total(values) if isinstance(values[0], float) else wrapped(sum(values))
    if kind == "mean":
        return _total([float(value) for value in values]) / len(values)
    ordered = sorted((value + 0 for value in values), key=_nan_last)
    if kind == "top_k":
        return ordered[::-1][:k]
    return ordered[0] if kind == "min" else ordered[-1]


def _nan_last(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def _total(values: Sequence[float]) -> float:
    if all(math.isfinite(value) for value in values):
        return math.fsum(values) + 0.0
    return sum(values)
