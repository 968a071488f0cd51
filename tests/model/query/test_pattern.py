"""Patterns and measures: what can be read, and how what cannot is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from shoal.errors import GraphError
from shoal.model.query.expression import col, from_data
from shoal.model.query.pattern import UNLIMITED, Element, Measure, Pattern, measure, pattern, prev, uses_previous
from shoal.model.query.schema import Schema

SCHEMA = Schema.of({"ts": "timestamp", "k": "string", "n": "int64", "x": "float64"})


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        pytest.param("A", [Element(("A",))], id="one row"),
        pytest.param("A B", [Element(("A",)), Element(("B",))], id="two rows"),
        pytest.param("A+", [Element(("A",), 1, UNLIMITED)], id="one or more"),
        pytest.param("A B*", [Element(("A",)), Element(("B",), 0, UNLIMITED)], id="any number"),
        pytest.param("A B?", [Element(("A",)), Element(("B",), 0, 1)], id="one or none"),
        pytest.param("A{3}", [Element(("A",), 3, 3)], id="exactly three"),
        pytest.param("A{2,}", [Element(("A",), 2, UNLIMITED)], id="two or more"),
        pytest.param("A{ 2 , 5 }?", [Element(("A",), 2, 5, reluctant=True)], id="reluctant"),
        pytest.param("A+?", [Element(("A",), 1, UNLIMITED, reluctant=True)], id="as few as possible"),
        pytest.param("A B??", [Element(("A",)), Element(("B",), 0, 1, reluctant=True)], id="rather none"),
        pytest.param("(A | B)+", [Element(("A", "B"), 1, UNLIMITED)], id="alternatives"),
        pytest.param("A !C B", [Element(("A",)), Element(("C",), negated=True), Element(("B",))], id="negation"),
        pytest.param("  A+B  ", [Element(("A",), 1, UNLIMITED), Element(("B",))], id="spaces do not matter"),
    ],
)
def test_a_pattern_is_read_and_written_alike(text: str, elements: list[Element]) -> None:
    read = pattern(text)
    assert read == Pattern(tuple(elements))
    assert pattern(read.text) == read


def test_a_pattern_names_its_variables_once_in_order() -> None:
    assert pattern("B (A | B) !C A").variables == ("B", "A", "C")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "pattern '' must demand at least one row", id="nothing"),
        pytest.param("A* B?", "pattern 'A* B?' must demand at least one row", id="nothing that must be there"),
        pytest.param(
            "A + + B",
            "pattern 'A + + B' cannot be read from ' + B' on; expected e.g. A+ (B | C)? !D E{2,3}",
            id="a sign without a variable",
        ),
        pytest.param(
            "A (B | ) C", "pattern 'A (B | ) C': alternatives must be variables such as (A | B); got 'B | '", id="or no"
        ),
        pytest.param(
            "A (B C)", "pattern 'A (B C)': alternatives must be variables such as (A | B); got 'B C'", id="a sequence"
        ),
        pytest.param("A{3,2}", "pattern 'A{3,2}' has an element 'A{3,2}' with impossible numbers", id="wrong way"),
        pytest.param("B A{0}", "pattern 'B A{0}' has an element 'A{0}' with impossible numbers", id="never"),
        pytest.param("!C A", "pattern '!C A' must have '!C' between two other elements", id="negation first"),
        pytest.param("A !C", "pattern 'A !C' must have '!C' between two other elements", id="negation last"),
        pytest.param("A !C+ B", "pattern 'A !C+ B' must have '!C+' between two other elements", id="negated run"),
        pytest.param(" ".join("A" * 33), "pattern must have at most 32 elements; got 33", id="too long"),
    ],
)
def test_a_pattern_that_cannot_be_followed_cannot_be_built(text: str, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        pattern(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "wanted", "type_"),
    [
        pytest.param("first(A.ts)", Measure("first", "A", "ts"), "timestamp", id="of a variable"),
        pytest.param("last(k)", Measure("last", "", "k"), "string", id="of all rows"),
        pytest.param("count(*)", Measure("count"), "int64", id="count of all rows"),
        pytest.param("count(A)", Measure("count", "A"), "int64", id="count of a variable"),
        pytest.param("count(A.n)", Measure("count", "A", "n"), "int64", id="count of a variable's column"),
        pytest.param(" MEAN ( A . n ) ", Measure("mean", "A", "n"), "float64", id="spaces and capitals"),
        pytest.param("sum(n)", Measure("sum", "", "n"), "int64", id="sum of integers"),
        pytest.param("max(B.x)", Measure("max", "B", "x"), "float64", id="largest float"),
    ],
)
def test_a_measure_is_read_and_has_a_type(text: str, wanted: Measure, type_: str) -> None:
    read = measure(text)
    assert read == wanted
    assert Measure(*read.data()) == read  # type: ignore[arg-type]
    read.check(("A", "B"), SCHEMA, "here")
    assert read.output_type(SCHEMA) == type_


@pytest.mark.parametrize(
    "text", ["", "first", "first()", "first(*)", "median(A.n)", "sum(A.)", "first(A.n", "sum(a b)"]
)
def test_what_is_no_measure_cannot_be_read(text: str) -> None:
    with pytest.raises(GraphError) as caught:
        measure(text)
    assert str(caught.value) == (
        "measure must be one of first, last, count, sum, mean, min, max of VARIABLE.column, e.g. first(A.ts); "
        f"got {text!r}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("count(C)", "here names variable 'C'; the pattern has A, B", id="unknown variable"),
        pytest.param("first(A.y)", "here names unknown column 'y'; there are ts, k, n, x", id="unknown column"),
        pytest.param("sum(A.ts)", "here: sum needs numbers; 'ts' is timestamp", id="sum of times"),
        pytest.param("mean(A.k)", "here: mean needs numbers; 'k' is string", id="mean of texts"),
        pytest.param("min(k)", "here: min needs numbers or times; 'k' is string", id="smallest text"),
    ],
)
def test_a_measure_refuses_what_it_cannot_take(text: str, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        measure(text).check(("A", "B"), SCHEMA, "here")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("build", "looks_back"),
    [
        pytest.param(lambda: prev("n"), True, id="itself"),
        pytest.param(lambda: col("n") > prev("n"), True, id="in a comparison"),
        pytest.param(lambda: ~(prev("n").is_in([1, 2])), True, id="in a negated choice"),
        pytest.param(lambda: col("n") > 5, False, id="not at all"),
    ],
)
def test_an_expression_knows_whether_it_looks_at_the_row_before(build: Callable[[], Any], looks_back: bool) -> None:
    expression = build()
    assert uses_previous(expression) == looks_back
    assert from_data(expression.data()).data() == expression.data()
    assert set(expression.columns()) == {"n"}


def test_the_row_before_has_the_types_of_this_one() -> None:
    assert prev("x").type_in(SCHEMA, "here") == "float64"
    with pytest.raises(GraphError) as caught:
        prev("y").type_in(SCHEMA, "here")
    assert str(caught.value) == "here names unknown column 'y'; there are ts, k, n, x"
