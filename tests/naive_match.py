"""Pattern matching row by row: backtracking, the preferred way first.

A pattern is read with Shoal's own parser, which is part of the query language; how rows are matched is written again.

`selection="strict"`: every row must be taken. `selection="next"`: a row that no way can take is passed over, unless a
negated element stands right behind the current one, which may be left by now, and accepts the row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.naive_expressions import Row, order_of, uses_previous, value_of
from tests.naive_windows import TIME, by_key, in_order, total

from shoal.model.query.pattern import Element, pattern

FINISH = -1
"""The way that takes no row but ends the match."""
Taken = tuple[tuple[int, str], ...]
"""Rows of a match, by their position in the group, each with the variable that names it."""


class Position(NamedTuple):
    """A row that is next, the element that is current, and how many rows that one has taken."""

    at: int
    element: int
    times: int


def matches(rows: Sequence[Row], parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The results of a match operator."""
    keys, types = parameters["keys"], parameters["types"]
    results = []
    for key, group in by_key(in_order(rows, types), keys).items():
        for taken in _found(group, parameters):
            result = dict(zip(keys, key, strict=True))
            for name, (kind, variable, column) in parameters["measures"].items():
                rows_of = [group[at] for at, named in taken if variable in ("", named)]
                result[name] = measured(kind, [row[column] for row in rows_of]) if column else len(rows_of)
            results.append({**result, TIME: group[taken[-1][0]][TIME]})
    return results


def measured(kind: str, values: Sequence[Any]) -> Any:
    """One measure of the values of a variable's rows, of which there may be none; most skip nulls."""
    if kind not in ("first", "last"):
        values = [value for value in values if value is not None]
    if kind == "count":
        return len(values)
    if not values:
        return None
    match kind:
        case "first":
            return values[0]
        case "last":
            return values[-1]
        case "sum":
            return total(values)
        case "mean":
            return total(values) / len(values)
        case "min":
            return min(values, key=order_of)
    return max(values, key=order_of)


def _found(group: Sequence[Row], parameters: Mapping[str, Any]) -> Iterator[Taken]:
    start = 0
    while start < len(group):
        taken = Attempt(group, parameters, start).found()
        if taken is None or parameters["after"] == "next_row":
            start += 1
        else:
            start = taken[-1][0] + 1
        if taken is not None:
            yield taken


@dataclass
class Attempt:
    """The search for a match that begins with one row of a group."""

    group: Sequence[Row]
    parameters: Mapping[str, Any]
    start: int

    def __post_init__(self) -> None:
        """Read the pattern once."""
        self.elements: tuple[Element, ...] = pattern(self.parameters["pattern"]).elements
        self.strict = self.parameters["selection"] == "strict"
        self.latest = self.group[self.start][TIME] + self.parameters["within_us"]

    def found(self) -> Taken | None:
        """The preferred match; None if there is none."""
        positions = [Position(self.start, 0, 0)]
        ways = [self._ways(positions[0])]
        taken: list[tuple[int, str]] = []
        failed: set[Position] = set()
        while ways:
            way = next(ways[-1], None)
            if way is None:
                ways.pop()
                failed.add(positions.pop())
                del taken[-1:]
            elif way.element == FINISH:
                return tuple(taken)
            elif (position := Position(way.at + 1, way.element, way.times)) not in failed:
                taken.append((way.at, self._variable(way.element, way.at)))
                positions.append(position)
                ways.append(self._ways(position))
        return None

    def _ways(self, position: Position) -> Iterator[Position]:
        """The ways to go on, the preferred one first: a row, the element that takes it and its rows so far."""
        at, element, count = position
        options = list(self._options(element, count))
        fitting: set[int] = set()
        while at < len(self.group) and self.group[at][TIME] <= self.latest:
            fitting = {option for option in options if option != FINISH and self._variable(option, at)}
            if fitting or self.strict or at == self.start or options[0] == FINISH:
                break
            if self._forbidden(element, count, at):
                return
            at += 1
        for option in options:
            if option == FINISH or option in fitting:
                yield Position(at, option, count + 1 if option == element else 1)

    def _options(self, element: int, count: int) -> Iterator[int]:
        """The elements that may take the next row, or `FINISH`, the preferred one first."""
        if element == len(self.elements):
            yield FINISH
            return
        one = self.elements[element]
        if one.negated:
            yield from self._options(element + 1, 0)
            return
        stay = [element] if count < one.most else []
        leave = self._options(element + 1, 0) if count >= one.least else iter(())
        if one.reluctant:
            yield from leave
            yield from stay
        else:
            yield from stay
            yield from leave

    def _variable(self, element: int, at: int) -> str:
        """The first variable of an element that accepts a row; none: an empty text."""
        return next((name for name in self.elements[element].variables if self._accepts(name, at)), "")

    def _accepts(self, variable: str, at: int) -> bool:
        condition = self.parameters["define"].get(variable)
        if condition is None:
            return True
        if at == 0 and uses_previous(condition):
            return False
        return bool(value_of(condition, self.group[at], self.group[at - 1] if at else None))

    def _forbidden(self, element: int, count: int, at: int) -> bool:
        """Whether a row that was not taken is one that must not occur here."""
        if count < self.elements[element].least:
            return False
        for one in self.elements[element + 1 :]:
            if not one.negated:
                return False
            if any(self._accepts(name, at) for name in one.variables):
                return True
        return False
