"""Nulls in conditions: which columns cannot be null in the rows that a condition lets pass."""

from shoal.model.query.expression import Binary, Column, Expression, IsIn, Not
from shoal.model.query.functions import Call
from shoal.model.query.schema import Schema

_NOT_STRICT = ("is_null", "is_same", "coalesce", "nullif", "if", "least", "greatest")
_NOTHING: frozenset[str] = frozenset()


def required_by(condition: Expression) -> frozenset[str]:
    """Columns that have a value in every row for which the condition holds.

    >>> from shoal.model.query.expression import col
    >>> sorted(required_by((col("a") > 0) & ((col("b") == 1) | (col("a") == 2))))
    ['a']
    """
    if isinstance(condition, Binary) and condition.op == "and":
        return required_by(condition.left) | required_by(condition.right)
    if isinstance(condition, Binary) and condition.op == "or":
        return required_by(condition.left) & required_by(condition.right)
    if isinstance(condition, Not):
        return _required_by_opposite(condition.condition)
    return _strict(condition)


def _required_by_opposite(condition: Expression) -> frozenset[str]:
    """The same for rows in which the condition is false: neither true nor null."""
    if isinstance(condition, Call) and condition.function == "is_null":
        return _strict(condition.arguments[0])
    if isinstance(condition, Not):
        return required_by(condition.condition)
    if isinstance(condition, Binary) and condition.op in ("and", "or"):
        left, right = _required_by_opposite(condition.left), _required_by_opposite(condition.right)
        return left | right if condition.op == "or" else left & right
    return _strict(condition)


def _strict(expression: Expression) -> frozenset[str]:
    """Columns without which an expression is null."""
    if isinstance(expression, Column):
        return frozenset({expression.name})
    strict_call = isinstance(expression, Call) and expression.function not in _NOT_STRICT
    strict_operation = isinstance(expression, Binary) and expression.op not in ("and", "or")
    if strict_call or strict_operation or isinstance(expression, Not | IsIn):
        return _NOTHING.union(*(_strict(child) for child in expression.children()))
    return _NOTHING


def narrowed(schema: Schema, condition: Expression) -> Schema:
    """A schema after a filter: columns without which the condition cannot hold are no longer null."""
    return schema.required(required_by(condition))
