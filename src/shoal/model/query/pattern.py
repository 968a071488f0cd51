"""Patterns of rows: a sequence of elements, each a row or a run of rows that a condition accepts.

>>> pattern("A+ B").text
'A+ B'
>>> [element.variables for element in pattern("(A | B){2,3} !C D?").elements]
[('A', 'B'), ('C',), ('D',)]
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from shoal.errors import GraphError
from shoal.model.query.expression import Expression, col, register_form
from shoal.model.query.schema import FieldType, Schema

After = Literal["past_last_row", "next_row"]
AFTER: tuple[After, ...] = get_args(After)
Selection = Literal["strict", "next"]
SELECTIONS: tuple[Selection, ...] = get_args(Selection)
MeasureKind = Literal["first", "last", "count", "sum", "mean", "min", "max"]
MEASURE_KINDS: tuple[MeasureKind, ...] = get_args(MeasureKind)
UNLIMITED = 1 << 30
LARGEST_ELEMENTS = 32
_ELEMENT = re.compile(
    r"\s*(?P<not>!)?\s*(?:(?P<one>[A-Za-z_]\w*)|\((?P<many>[^()]*)\))\s*"
    r"(?P<times>[+*?]|\{\s*\d+\s*(?:,\s*\d*\s*)?\})?(?P<reluctant>\?)?"
)
_MEASURE = re.compile(r"\s*(\w+)\s*\(\s*(?:\*|(?:([A-Za-z_]\w*)\s*\.\s*)?([A-Za-z_]\w*)?)\s*\)\s*")


@dataclass(frozen=True)
class Element:
    """One part of a pattern: the variables of which a row must be one, and how many rows there may be.

    Greedy unless `reluctant`. A negated element takes no row: between its neighbours none of its variables may occur.
    """

    variables: tuple[str, ...]
    least: int = 1
    most: int = 1
    reluctant: bool = False
    negated: bool = False

    @property
    def text(self) -> str:
        """The element as it is written."""
        names = self.variables[0] if len(self.variables) == 1 else f"({' | '.join(self.variables)})"
        times = {(1, 1): "", (1, UNLIMITED): "+", (0, UNLIMITED): "*", (0, 1): "?"}.get((self.least, self.most))
        if times is None:
            most = "" if self.most == UNLIMITED else self.most
            times = f"{{{self.least}}}" if self.least == self.most else f"{{{self.least},{most}}}"
        return ("!" if self.negated else "") + names + times + ("?" if self.reluctant else "")


@dataclass(frozen=True)
class Pattern:
    """A sequence of elements."""

    elements: tuple[Element, ...]

    def __post_init__(self) -> None:
        """Reject patterns that match nothing or cannot be followed."""
        if not any(element.least and not element.negated for element in self.elements):
            raise GraphError(f"pattern {self.text!r} must demand at least one row")
        if len(self.elements) > LARGEST_ELEMENTS:
            raise GraphError(f"pattern must have at most {LARGEST_ELEMENTS} elements; got {len(self.elements)}")
        for at, element in enumerate(self.elements):
            if not 0 <= element.least <= element.most or element.most < 1:
                raise GraphError(f"pattern {self.text!r} has an element {element.text!r} with impossible numbers")
            if element.negated and (at in (0, len(self.elements) - 1) or (element.least, element.most) != (1, 1)):
                raise GraphError(f"pattern {self.text!r} must have {element.text!r} between two other elements")

    @cached_property
    def text(self) -> str:
        """The pattern as it is written."""
        return " ".join(element.text for element in self.elements)

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, each once."""
        return tuple(dict.fromkeys(name for element in self.elements for name in element.variables))


def pattern(text: str) -> Pattern:
    """Read a pattern: `A+ B`, `(A | B)* C`, `A{2,5}? B`, `A !C B`."""
    return Pattern(tuple(_elements(text)))


def _elements(text: str) -> Iterator[Element]:
    at = 0
    text = text.strip()
    while at < len(text):
        found = _ELEMENT.match(text, at)
        if found is None or found.end() == at:
            raise GraphError(
                f"pattern {text!r} cannot be read from {text[at:]!r} on; expected e.g. A+ (B | C)? !D E{{2,3}}"
            )
        names = [found["one"]] if found["one"] else [name.strip() for name in found["many"].split("|")]
        if not all(name.isidentifier() for name in names):
            raise GraphError(f"pattern {text!r}: alternatives must be variables such as (A | B); got {found['many']!r}")
        least, most = _times(found["times"])
        yield Element(tuple(names), least, most, bool(found["reluctant"]), bool(found["not"]))
        at = found.end()


def _times(text: str | None) -> tuple[int, int]:
    simple = {None: (1, 1), "+": (1, UNLIMITED), "*": (0, UNLIMITED), "?": (0, 1)}
    if text in simple:
        return simple[text]
    least, comma, most = str(text).strip("{}").partition(",")
    return int(least), int(most) if most.strip() else (UNLIMITED if comma else int(least))


@dataclass(frozen=True)
class Measure:
    """A value of a match: of the rows of one variable, or of all rows if it names none.

    Null if there is no such row. `first` and `last` are of the first and last row, the others skip nulls; a count of a
    column counts the rows in which it is not null.
    """

    kind: MeasureKind
    variable: str = ""
    column: str = ""

    def data(self) -> list[str]:
        """Plain form."""
        return [self.kind, self.variable, self.column]

    def output_type(self, schema: Schema) -> FieldType:
        """Type of the value."""
        if self.kind == "count":
            return "int64"
        return "float64" if self.kind == "mean" else schema.type_of(self.column)

    def may_be_null(self, schema: Schema, whole: Pattern) -> bool:
        """Whether the value can be null: if the column can, or if the variable may name no row of a match."""
        if self.kind == "count":
            return False
        always = [element for element in whole.elements if element.variables == (self.variable,) and element.least]
        has_row = not self.variable or any(not element.negated for element in always)
        return not has_row or schema.may_be_null(self.column)

    def check(self, variables: Sequence[str], schema: Schema, where: str) -> None:
        """Reject unknown variables and columns, and aggregates of unsuitable types."""
        if self.variable and self.variable not in variables:
            raise GraphError(f"{where} names variable {self.variable!r}; the pattern has {', '.join(variables)}")
        if self.kind == "count" and not self.column:
            return
        type_ = col(self.column).type_in(schema, where)
        numbers: tuple[FieldType, ...] = ("int64", "float64")
        if self.kind in ("sum", "mean") and type_ not in numbers:
            raise GraphError(f"{where}: {self.kind} needs numbers; {self.column!r} is {type_}")
        if self.kind in ("min", "max") and type_ not in (*numbers, "timestamp"):
            raise GraphError(f"{where}: {self.kind} needs numbers or times; {self.column!r} is {type_}")


def measure(text: Any) -> Measure:
    """Read a measure: `first(A.ts)`, `count(A)`, `count(*)`, `mean(A.delay)`, `last(ts)`.

    >>> measure("mean(A.delay)")
    Measure(kind='mean', variable='A', column='delay')
    >>> measure("count(A)")
    Measure(kind='count', variable='A', column='')
    >>> measure("count(A.delay)")
    Measure(kind='count', variable='A', column='delay')
    """
    found = _MEASURE.fullmatch(text) if isinstance(text, str) else None
    kind = found[1].lower() if found else ""
    if found is None or kind not in MEASURE_KINDS or (kind != "count" and not found[3]):
        raise GraphError(
            f"measure must be one of {', '.join(MEASURE_KINDS)} of VARIABLE.column, e.g. first(A.ts); got {text!r}"
        )
    if kind == "count":
        return Measure("count", found[2], found[3]) if found[2] else Measure("count", found[3] or "")
    return Measure(kind, found[2] or "", found[3])


@dataclass(frozen=True, eq=False)
class Previous(Expression):
    """A column's value in the previous row of the group; for the first row of a group a condition does not hold."""

    name: str

    def data(self) -> list[Any]:
        """Plain form."""
        return ["prev", self.name]

    def columns(self) -> Iterator[str]:
        """The column read."""
        yield self.name

    def type_in(self, schema: Schema, where: str) -> FieldType:
        """The column's type."""
        return col(self.name).type_in(schema, where)

    def may_be_null(self, schema: Schema) -> bool:
        """Whether the column may be null."""
        return col(self.name).may_be_null(schema)


def prev(name: str) -> Previous:
    """A column's value in the previous row, for the conditions of a pattern.

    >>> prev("price").data()
    ['prev', 'price']
    """
    return Previous(name)


def uses_previous(expression: Expression) -> bool:
    """Whether an expression reads the previous row."""
    return isinstance(expression, Previous) or any(uses_previous(child) for child in expression.children())


def _previous_from(data: Sequence[Any], rebuild: Callable[[Any], Expression]) -> Expression:  # noqa: ARG001
    match data:
        case [_, str(name)]:
            return Previous(name)
        case _:
            raise GraphError(f"unknown expression {data!r}")


register_form("prev", _previous_from)
