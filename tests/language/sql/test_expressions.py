"""SQL expressions: what they are in Python, and constants that come out as they went in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp
from tests.language.sql.tables import CELL, parameters, refused

from shoal.language.sql.dialect import parse
from shoal.language.sql.expressions import Translator
from shoal.model.query.expression import Expression, col, lit
from shoal.model.query.functions import abs_, call, coalesce, floor, if_, is_null, is_same, null, nullif, round_

_NESTED = if_(col("toll"), null("float64"), if_(col("road") > 1, 2.5, null("float64")))


def translated(text: str) -> Expression:
    tree = parse(f"SELECT {text}")[0].expressions[0]
    return Translator(lambda node: col(node.name) if isinstance(node, exp.Column) else None, {"cell": CELL})(tree)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("a + b * 2 - 1", col("a") + col("b") * 2 - 1),
        ("(a + b) / 2", (col("a") + col("b")) / 2),
        ("a DIV 2", col("a") // 2),
        ("a % 3", col("a") % 3),
        ("MOD(a, 3)", col("a") % 3),
        ("-a", 0 - col("a")),
        ("a = 1", col("a") == 1),
        ("a <> 1", col("a") != 1),
        ("a != 1.5", col("a") != 1.5),
        ("a <= -1", col("a") <= -1),
        ("s = 'it''s'", col("s") == "it's"),
        ("b = TRUE", col("b") == True),  # noqa: E712  (an expression)
        ("a > 1 AND NOT b OR c", ((col("a") > 1) & ~col("b")) | col("c")),
        ("a BETWEEN 1 AND 2", (col("a") >= 1) & (col("a") <= 2)),
        ("NOT a BETWEEN 1 AND 2", ~((col("a") >= 1) & (col("a") <= 2))),
        ("a IN (3, 1, -2)", col("a").is_in([3, 1, -2])),
        ("s NOT IN ('x', 'y')", ~col("s").is_in(["x", "y"])),
        ("s LIKE 'ab%'", call("starts_with", col("s"), lit("ab"))),
        ("s LIKE '%ab%'", call("contains", col("s"), lit("ab"))),
        ("s LIKE 'ab'", col("s") == "ab"),
        ("s NOT LIKE 'ab%'", ~call("starts_with", col("s"), lit("ab"))),
        ("a IS NULL", is_null("a")),
        ("a IS NOT NULL", ~is_null("a")),
        ("b IS UNKNOWN", is_null("b")),
        ("b IS TRUE", is_same("b", True)),
        ("b IS NOT FALSE", ~is_same("b", False)),
        ("a IS NOT DISTINCT FROM c", is_same("a", "c")),
        ("a IS DISTINCT FROM NULL", ~is_null("a")),
        ("NULL IS NULL", lit(True)),
        ("a IN (1, NULL)", col("a").is_in([1]) | null("bool")),
        ("a NOT IN (1, NULL)", ~(col("a").is_in([1]) | null("bool"))),
        ("NULL = NULL", null("bool")),
        ("b AND NULL", col("b") & null("bool")),
        ("CAST(NULL AS DOUBLE)", null("float64")),
        ("COALESCE(NULL, a)", col("a")),
        ("IFNULL(a, 0)", coalesce("a", 0)),
        ("NULLIF(a, 0)", nullif("a", 0)),
        ("NULLIF(a, NULL)", col("a")),
        ("CASE WHEN a > 1 THEN 'x' WHEN b THEN 'y' ELSE 'z' END", if_(col("a") > 1, "x", if_(col("b"), "y", "z"))),
        ("CASE a WHEN 1 THEN 2 ELSE 3 END", if_(col("a") == 1, 2, 3)),
        ("IF(b, 1, 2)", if_(col("b"), 1, 2)),
        ("CAST(a AS BIGINT)", call("as_int64", col("a"))),
        ("CAST(a AS INT)", call("as_int64", col("a"))),
        ("CAST(a AS DOUBLE)", call("as_float64", col("a"))),
        ("CAST(a AS VARCHAR)", call("as_string", col("a"))),
        ("CAST(a AS TIMESTAMP)", call("as_timestamp", col("a"))),
        ("CAST(a AS TIMESTAMP(6))", call("as_timestamp", col("a"))),
        ("ts > TIMESTAMP '1970-01-01 00:00:01'", col("ts") > 1_000_000),
        ("ts + INTERVAL '2' MINUTE", col("ts") + 120_000_000),
        ("EXTRACT(HOUR FROM ts)", call("hour", "ts")),
        ("MINUTE(ts)", call("minute", "ts")),
        ("ABS(a)", abs_("a")),
        ("FLOOR(a)", floor("a")),
        ("CEILING(a)", call("ceil", "a")),
        ("ROUND(a)", round_("a")),
        ("POWER(a, 2)", call("power", "a", lit(2))),
        ("DISTANCE(a, b, 0, 1)", call("distance", "a", "b", lit(0), lit(1))),
        ("HAVERSINE(a, b, 0, 1)", call("haversine", "a", "b", lit(0), lit(1))),
        ("ST_Distance(ST_Point(a, b), ST_MakePoint(0, 1))", call("distance", "a", "b", lit(0), lit(1))),
        ("ST_DistanceSphere(ST_Point(a, b), ST_Point(0, 1))", call("haversine", "a", "b", lit(0), lit(1))),
        ("ST_DWithin(ST_Point(a, b), ST_Point(0, 1), 5)", call("distance", "a", "b", lit(0), lit(1)) <= 5),
        ("LEAST(a, b, 3)", call("least", "a", "b", lit(3))),
        ("CHAR_LENGTH(s)", call("length", "s")),
        ("SUBSTRING(s, 1, 3)", call("substring", "s", lit(1), lit(3))),
        ("SUBSTRING(s FROM 1 FOR 3)", call("substring", "s", lit(1), lit(3))),
        ("s || 'x'", call("concat", "s", lit("x"))),
        ("CONCAT(s, 'x')", call("concat", "s", lit("x"))),
        ("COALESCE(a, 0)", coalesce("a", 0)),
        ("cell(a, 2)", CELL("a", 2)),
        ("CELL(a, 2)", CELL("a", 2)),
    ],
)
def test_an_expression_means_the_same_in_sql_and_in_python(sql: str, wanted: Expression) -> None:
    assert translated(sql).text == wanted.text


@given(st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.text("ab'% _\"`-;é"), st.booleans()))
def test_a_constant_comes_out_as_it_went_in(value: Any) -> None:
    written = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
    assert translated(written).data() == ["lit", value]


@given(st.floats(-1e15, 1e15))
def test_a_fraction_comes_out_as_it_went_in(value: float) -> None:
    found = translated(f"{value:.20f}").data()
    assert found == ["lit", float(f"{value:.20f}")]


@given(st.recursive(st.sampled_from(["a", "b"]), lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner)))
def test_operators_bind_as_in_python(tree: Any) -> None:
    def text(node: Any) -> str:
        return node if isinstance(node, str) else f"({text(node[0])}) {node[1]} ({text(node[2])})"

    wanted = eval(text(tree), {"a": col("a"), "b": col("b")})
    assert translated(text(tree)).text == wanted.text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param("NULL", ["line 1, column 16", "type of NULL", "CAST(NULL AS BIGINT)"], id="null"),
        pytest.param("ABS(NULL)", ["type of NULL"], id="a function of null"),
        pytest.param("NULL + NULL", ["type of NULL"], id="nulls alone"),
        pytest.param("CASE WHEN toll THEN NULL END", ["type of NULL"], id="a case of nothing but null"),
        pytest.param("speed IS TRUE", ["go with conditions"], id="a number that is true"),
        pytest.param("speed > kind", ["line 1, column 8", "values of the same kind"], id="values of different kinds"),
        pytest.param("CAST(kind AS VARCHAR(2))", ["does not shorten"], id="a cast that cuts"),
        pytest.param("CAST(ts AS TIMESTAMP(3))", ["does not shorten"], id="a cast that rounds"),
        pytest.param("road BETWEEN SYMMETRIC 5 AND 1", ["SYMMETRIC", "smaller bound"], id="bounds in any order"),
        pytest.param("kind LIKE 5", ["LIKE takes"], id="a number as a pattern"),
        pytest.param("kind LIKE 'a_c'", ["LIKE takes"], id="a wildcard for one letter"),
        pytest.param("kind LIKE '%ab'", ["LIKE takes"], id="an ending"),
        pytest.param("kind LIKE 'a!%' ESCAPE '!'", ["ESCAPE"], id="an escape"),
        pytest.param("CAST(speed AS DECIMAL(3, 1))", ["CAST is to"], id="a decimal"),
        pytest.param("CAST(speed AS BOOLEAN)", ["CAST is to"], id="a truth"),
        pytest.param("EXTRACT(YEAR FROM ts)", ["HOUR, MINUTE or SECOND"], id="a year"),
        pytest.param("QUUX(speed)", ["no function 'QUUX'", "ABS", "cell"], id="an unknown function"),
        pytest.param("kind IN (road, 2)", ["expected a constant"], id="choices that are columns"),
        pytest.param("TIMESTAMP 'yesterday'", ["expected a time"], id="no time"),
        pytest.param("ARRAY[1, 2]", ["expressions are"], id="an array"),
        pytest.param("SUBSTRING(kind, 2)", ["needs a length"], id="no length"),
    ],
)
def test_what_is_not_supported_is_named_with_what_is(value: str, said: list[str]) -> None:
    refused(f"SELECT {value} AS x FROM cars", *said)


def test_a_constant_condition_that_never_holds_stays() -> None:
    assert parameters("SELECT * FROM cars WHERE ts IS NULL", "filter")["condition"] == ["lit", False]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("CASE WHEN toll THEN 1 END", if_(col("toll"), 1, null("int64"))),
        ("CASE WHEN toll THEN NULL WHEN road > 1 THEN 2.5 END", _NESTED),
        ("IF(toll, kind)", if_(col("toll"), col("kind"), null("string"))),
        ("speed + NULL", col("speed") + null("float64")),
        ("speed BETWEEN NULL AND 5", (col("speed") >= null("float64")) & (col("speed") <= 5)),
        ("speed IN (1, 2.5)", col("speed").is_in([1.0, 2.5])),
        ("ts IS NOT NULL", lit(True)),
        ("ts IS DISTINCT FROM TIMESTAMP '1970-01-01 00:00:01'", ~(col("ts") == call("as_timestamp", lit(1_000_000)))),
    ],
)
def test_a_null_has_the_type_of_what_stands_beside_it(sql: str, wanted: Expression) -> None:
    assert parameters(f"SELECT {sql} AS x FROM cars", "select")["columns"] == [["x", wanted.data()]]
