"""Scalar expressions: one value of a row, written as in SQL."""

from sqlglot import exp

from shoal.errors import GraphError
from shoal.language.sql.dialect import parse
from shoal.language.sql.expressions import Translator
from shoal.model.query.expression import Expression, col


def scalar(text: str, what: str) -> Expression:
    """The expression that a text means; `what` it is, for errors.

    >>> scalar("vip * 10 + 1", "utility").data()
    ['add', ['mul', ['col', 'vip'], ['lit', 10]], ['lit', 1]]
    """
    statements = parse(f"SELECT {text}", where=what)
    select = statements[0]
    given = [name for name, value in select.args.items() if value]
    if len(statements) != 1 or given != ["expressions"] or len(select.expressions) != 1:
        raise GraphError(f"{what} must be one column or expression; got {text!r}")
    translate = Translator(lambda tree: col(tree.name) if isinstance(tree, exp.Column) else None)
    return translate(select.expressions[0])
