"""The SQL dialect: standard SQL with Flink's windows, watermarks, table functions and row patterns.

>>> tree = parse("SELECT road FROM cars WHERE speed > 30")[0]
>>> quoted(tree)
'SELECT road FROM cars WHERE speed > 30'
>>> parse("SELECT road FROM cars WHERE", where="cars.sql")
Traceback (most recent call last):
shoal.errors.SqlError: cars.sql, line 1, column 23: something is missing in WHERE
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp, generator, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from shoal.errors import SqlError

STATEMENTS = "CREATE TABLE, CREATE VIEW, INSERT INTO ... SELECT and SELECT"
LONGEST_QUOTE = 120
_CALLS = ("CAST", "EXTRACT", "SUBSTRING")
"""Functions with special syntax; all others stay calls by name, which the user may define."""


class PartitionBy(exp.Expression):
    """The keys of a table that is an argument, and the arguments behind them, which the parser takes for keys."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class StreamingParser(Parser):
    """Reads what other dialects lack: WATERMARK, TABLE(TUMBLE(TABLE t, ...)), and WITHIN in MATCH_RECOGNIZE."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {name: Parser.FUNCTION_PARSERS[name] for name in _CALLS}
    FUNC_TOKENS: ClassVar[set[TokenType]] = {*Parser.FUNC_TOKENS, TokenType.SESSION, TokenType.TABLE}
    CONSTRAINT_PARSERS: ClassVar[dict[str, Any]] = {
        **Parser.CONSTRAINT_PARSERS,
        "WATERMARK": lambda self: self.expression(
            exp.WatermarkColumnConstraint(
                this=self._match(TokenType.FOR) and self._parse_column(),
                expression=self._match(TokenType.ALIAS) and self._parse_disjunction(),
            )
        ),
    }
    SCHEMA_UNNAMED_CONSTRAINTS: ClassVar[set[str]] = {*Parser.SCHEMA_UNNAMED_CONSTRAINTS, "WATERMARK"}

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
        """An argument of a function: a value, `TABLE t [PARTITION BY ...]`, or one of them after `NAME =>`."""
        if self._next and self._next.token_type == TokenType.FARROW:
            name = self._curr.text
            self._advance(2)
            return exp.Kwarg(this=exp.var(name), expression=self._parse_lambda(alias))
        if self._curr.token_type == TokenType.TABLE:
            self._advance()
            table = self._parse_table_parts()
            if table is not None and (keys := self._parse_partition_by()):
                bare = [each for key in keys for each in (key.expressions if isinstance(key, exp.Tuple) else [key])]
                table.set("partition", PartitionBy(expressions=[each.unnest() for each in bare]))
            return table
        return super()._parse_lambda(alias)

    def _parse_match_recognize(self) -> exp.MatchRecognize | None:
        """A row pattern; WITHIN follows PATTERN, an addition to the standard."""
        self._within: exp.Expr | None = None
        found = super()._parse_match_recognize()
        if found is not None:
            found.set("within", self._within)
        return found

    def _match_text_seq(self, *texts: str, advance: bool = True) -> bool:
        """Match words; WITHIN is taken in on the way to DEFINE."""
        if texts == ("DEFINE",) and super()._match_text_seq("WITHIN"):
            self._within = self._parse_interval()
        return super()._match_text_seq(*texts, advance=advance)

    def _warn_unsupported(self) -> None:
        """Reject statements that would only be passed on to a database."""
        self.raise_error(f"statements are {STATEMENTS}; got another", self._tokens[0])


class Streaming(Dialect):
    """Standard SQL with Flink's additions; names in backticks or double quotes."""

    NULL_ORDERING = "nulls_are_last"

    class Tokenizer(tokens.Tokenizer):
        """Words and quotes."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **tokens.Tokenizer.KEYWORDS,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
        }

    Parser = StreamingParser

    class Generator(generator.Generator):
        """Clauses as they are quoted."""

        TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
            **generator.Generator.TRANSFORMS,
            PartitionBy: lambda self, tree: f" PARTITION BY {self.expressions(tree, flat=True)}",
        }


def parse(text: str, where: str = "sql") -> list[exp.Expr]:
    """The statements of a text as syntax trees; an error says the line and column."""
    try:
        return [tree for tree in Streaming().parse(text) if tree is not None and not isinstance(tree, exp.Semicolon)]
    except ParseError as error:
        raise SqlError(_explained(error, where)) from None
    except TokenError as error:
        raise SqlError(_unclosed(error, text, where)) from None


def quoted(tree: exp.Expr) -> str:
    """A clause as it is quoted in errors: in one line, not too long."""
    text = " ".join(tree.sql(dialect=Streaming, comments=False).split())
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 4] + " ..."


def place(tree: exp.Expr, where: str) -> str:
    r"""The text, line and column at which a clause begins; only the text if that is unknown.

    >>> place(parse("SELECT road,\n  sped FROM cars")[0].expressions[1], "cars.sql")
    'cars.sql, line 2, column 3'
    """
    around: exp.Expr | None = tree
    while around is not None:
        found = [node.meta for node in around.walk() if "line" in node.meta]
        if found:
            meta = min(found, key=lambda each: int(each["start"]))
            return f"{where}, line {meta['line']}, column {meta['col'] - meta['end'] + meta['start']}"
        around = around.parent
    return where


def call_name(tree: exp.Expr | None) -> str:
    """The name of a called function in capitals, or nothing."""
    return tree.name.upper() if isinstance(tree, exp.Anonymous) else ""


def _explained(error: ParseError, where: str) -> str:
    """What is wrong with a text, and where."""
    first: dict[str, Any] = error.errors[0] if error.errors else {"description": str(error), "line": 1, "col": 1}
    word = first.get("highlight") or ""
    column = max(1, first["col"] - len(word) + 1)
    what = str(first["description"])
    if missing := re.search(r"Required keyword.*?(\w+)'>$", what):
        return f"{where}, line {first['line']}, column {column}: something is missing in {missing[1].upper()}"
    what = what.removeprefix("Invalid expression / ").strip()
    near = f" near {word!r}" if word else ""
    return f"{where}, line {first['line']}, column {column}: {what[:1].lower() + what[1:]}{near}"


def _unclosed(error: TokenError, text: str, where: str) -> str:
    """What is wrong with a text that cannot be tokenized; the position is its end if unknown."""
    found = re.search(r"Missing (.+) from (\d+):(\d+)", str(error.__cause__))
    if found:
        return f"{where}, line {found[2]}, column {found[3]}: a closing {found[1]} is missing"
    lines = text.splitlines() or [""]
    return f"{where}, line {len(lines)}, column {len(lines[-1]) + 1}: a quote or comment is never closed"
