"""SQL that is about nulls: NULL itself, IS NULL, IS DISTINCT FROM, IN, CASE, COALESCE, NULLIF.

A NULL in SQL has no type of its own. It takes that of the values beside it; where there are none it is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.language.sql.dialect import call_name
from shoal.model.query.expression import Binary, Constant, Expression, Not
from shoal.model.query.functions import Call, Null

if TYPE_CHECKING:
    from shoal.language.sql.expressions import Translator

UNKNOWN = Null("bool")
"""A condition that is neither true nor false."""
_FIRST_OF = {"COALESCE": "coalesce", "LEAST": "least", "GREATEST": "greatest"}
"""Functions that pass over nulls."""


@dataclass(frozen=True, eq=False)
class UntypedNull(Expression):
    """A NULL before its type is known; it is never part of a translated expression."""


def negation(condition: Expression) -> Expression:
    """The opposite of a condition."""
    if isinstance(condition, Constant) and isinstance(condition.value, bool):
        return Constant(not condition.value)
    return Not(condition)


def alike(translate: "Translator", values: Sequence[Expression], tree: exp.Expr) -> list[Expression]:
    """The values, each NULL among them with the type of the others."""
    typed = [value for value in values if not isinstance(value, UntypedNull)]
    if len(typed) == len(values):
        return typed
    if not typed:
        raise translate.untyped(tree)
    null = Null(translate.type_of(typed[0], tree))
    return [null if isinstance(value, UntypedNull) else value for value in values]


def condition(translate: "Translator", tree: exp.Expr) -> Expression:
    """A condition; NULL is an unknown one."""
    found = translate.part(tree)
    return UNKNOWN if isinstance(found, UntypedNull) else found


def is_(translate: "Translator", tree: exp.Expr) -> Expression:
    """A condition IS NULL, IS TRUE, IS FALSE or IS UNKNOWN; it is never null itself."""
    value, wanted = translate.part(tree.this), tree.expression
    if isinstance(wanted, exp.Null):
        if isinstance(value, UntypedNull):
            return Constant(True)
        return Call("is_null", (value,)) if translate.may_be_null(value) else Constant(False)
    if not isinstance(wanted, exp.Boolean):
        raise translate.unsupported(tree, "IS goes with [NOT] NULL, TRUE, FALSE, UNKNOWN and DISTINCT FROM")
    if isinstance(value, UntypedNull):
        return Constant(False)
    if translate.schema is not None and translate.type_of(value, tree) != "bool":
        raise translate.unsupported(tree, "IS TRUE and IS FALSE go with conditions")
    if translate.may_be_null(value):
        return Call("is_same", (value, Constant(bool(wanted.this))))
    return value if wanted.this else negation(value)


def same(translate: "Translator", tree: exp.Expr) -> Expression:
    """A condition IS NOT DISTINCT FROM: equal, or both null."""
    left, right = translate.part(tree.this), translate.part(tree.expression)
    untyped = [isinstance(value, UntypedNull) for value in (left, right)]
    if all(untyped):
        return Constant(True)
    if any(untyped):
        value = right if untyped[0] else left
        return Call("is_null", (value,)) if translate.may_be_null(value) else Constant(False)
    if translate.may_be_null(left) or translate.may_be_null(right):
        return Call("is_same", (left, right))
    return Binary("eq", left, right)


def is_in(translate: "Translator", tree: exp.Expr) -> Expression:
    """A condition IN (...): true for a value in the list; otherwise unknown if the list or the value is null."""
    if not tree.expressions:
        raise translate.unsupported(tree, "IN takes a list of constants; a sub-query belongs in FROM, with a JOIN")
    value = translate.part(tree.this)
    listed = [each for each in tree.expressions if not isinstance(each, exp.Null)]
    choices = [translate.constant(each) for each in listed]
    if isinstance(value, UntypedNull) or not choices:
        return UNKNOWN
    if translate.schema is not None and translate.type_of(value, tree) == "float64":
        choices = [float(choice) if type(choice) is int else choice for choice in choices]
    found = value.is_in(choices)
    return found if len(listed) == len(tree.expressions) else Binary("or", found, UNKNOWN)


def case(translate: "Translator", tree: exp.Expr) -> Expression:
    """The value of the first branch that holds; without ELSE, NULL."""
    default = tree.args.get("default")
    chosen = UntypedNull() if default is None else translate.part(default)
    for branch in reversed(tree.args["ifs"]):
        holds = _holds(translate, tree.this, branch.this)
        chosen = choice(translate, holds, translate.part(branch.args["true"]), chosen, tree)
    return chosen


def _holds(translate: "Translator", subject: exp.Expr | None, tree: exp.Expr) -> Expression:
    """The condition of a branch: WHEN condition, or WHEN a value that the subject of CASE equals."""
    if subject is None:
        return condition(translate, tree)
    return translate.part(exp.EQ(this=subject.copy(), expression=tree.copy()))


def choice(
    translate: "Translator", holds: Expression, then: Expression, otherwise: Expression, tree: exp.Expr
) -> Expression:
    """One value where a condition holds, another where it is false or unknown."""
    if isinstance(then, UntypedNull) and isinstance(otherwise, UntypedNull):
        return then
    return Call("if", (holds, *alike(translate, (then, otherwise), tree)))


def call(translate: "Translator", tree: exp.Expr) -> Expression | None:
    """A call of a function that is about nulls; None for any other."""
    name, arguments = call_name(tree), tree.expressions
    if name in ("IFNULL", "NVL") and len(arguments) == 2:
        name = "COALESCE"
    if name in _FIRST_OF and arguments:
        values = [translate.part(argument) for argument in arguments]
        typed = [value for value in values if not isinstance(value, UntypedNull)]
        if len(typed) < 2 and len(typed) < len(values):
            return typed[0] if typed else UntypedNull()
        return typed[0] if len(typed) == 1 and name == "COALESCE" else Call(_FIRST_OF[name], tuple(typed))
    if name == "NULLIF" and len(arguments) == 2:
        value, other = (translate.part(argument) for argument in arguments)
        return value if UntypedNull in (type(value), type(other)) else Call("nullif", (value, other))
    return None
