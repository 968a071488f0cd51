"""Reading SQL: what is accepted, and errors in one line with a line and a column."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.language.sql.tables import STREAMS

from shoal.errors import ShoalError, SqlError
from shoal.language.sql.dialect import parse, quoted
from shoal.language.sql.script import parse_script


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "SELECT a FROM t WHERE", "x.sql, line 1, column 17: something is missing in WHERE", id="no condition"
        ),
        pytest.param(
            "SELECT a\nFROM t\nWHERE (a > 1", "x.sql, line 3, column 12: expecting ) near '1'", id="a parenthesis"
        ),
        pytest.param("SELEC a FROM t", "x.sql, line 1, column 9: unexpected token near 'FROM'", id="a misspelt word"),
        pytest.param("SELECT 'a FROM t", "x.sql, line 1, column 7: a closing ' is missing", id="a quote"),
        pytest.param("SELECT a /* b", "x.sql, line 1, column 14: a quote or comment is never closed", id="a comment"),
        pytest.param(
            "EXPLAIN SELECT 1", "x.sql, line 1, column 1: statements are CREATE TABLE", id="another statement"
        ),
    ],
)
def test_an_error_has_one_line_with_a_line_and_a_column(text: str, said: str) -> None:
    with pytest.raises(SqlError) as refusal:
        parse(text, "x.sql")
    assert str(refusal.value).startswith(said)
    assert "\n" not in str(refusal.value)


def test_names_stand_in_backticks_or_double_quotes_and_comments_are_skipped() -> None:
    trees = parse('SELECT `select`, "from" FROM t -- all\n; /* and */ SELECT 1 FROM u;;')
    assert [quoted(tree) for tree in trees] == ['SELECT "select", "from" FROM t', "SELECT 1 FROM u"]


def test_long_clauses_are_cut_in_errors() -> None:
    text = quoted(parse("SELECT " + ", ".join(f"column_{n}" for n in range(99)) + " FROM t")[0])
    assert len(text) <= 120
    assert text.endswith(" ...")


SQL = (
    "SELECT * FROM cars trips WHERE GROUP BY HAVING JOIN LEFT ON AND OR NOT ( ) , . = < + ts road speed 1 'x' AS a b "
    "IN BETWEEN COUNT(*) UNION ALL CASE WHEN END NULL IS INTERVAL '1' SECOND HOP(ts, TUMBLE(ts, MATCH_RECOGNIZE ( "
    "PATTERN DEFINE MEASURES ORDER OVER PARTITION CREATE VIEW INSERT INTO WATERMARK FOR ; DISTINCT "
    "TABLE( DESCRIPTOR(ts) ROW_NUMBER() COALESCE( LIKE CAST( FILTER WITH USING MAX( window_end TUMBLE_END(ts,"
)
WINDOW = "TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), INTERVAL '1' SECOND))"
WORDS = st.lists(st.sampled_from([*SQL.split(), WINDOW]), min_size=1, max_size=12).map(" ".join)


def error(text: str) -> str:
    """What a text is refused with; nothing if it is a script."""
    try:
        parse_script(text, streams=STREAMS)
    except ShoalError as refusal:
        return str(refusal)
    return ""


@given(WORDS)
def test_any_text_behind_a_query_is_a_script_or_refused_in_one_line(words: str) -> None:
    assert "\n" not in error(f"SELECT * FROM cars {words}")


@given(WORDS)
def test_any_list_of_columns_is_a_script_or_refused_in_one_line(words: str) -> None:
    assert "\n" not in error(f"SELECT {words} FROM {WINDOW} GROUP BY road, window_end")


@given(WORDS)
def test_any_source_and_condition_is_a_script_or_refused_in_one_line(words: str) -> None:
    assert "\n" not in error(f"SELECT a.road FROM cars a JOIN trips b ON a.ts = b.ts AND {words}")


def test_a_text_that_is_nested_too_deeply_is_refused() -> None:
    assert "nested too deeply" in error(f"SELECT {'(' * 5000}1{')' * 5000} AS x FROM cars")
