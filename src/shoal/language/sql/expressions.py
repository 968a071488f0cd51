"""SQL expressions: from syntax trees to expressions over the columns of a flow.

>>> from shoal.model.query.expression import col
>>> from shoal.language.sql.dialect import parse
>>> tree = parse("SELECT CASE WHEN kind LIKE 'b%' THEN speed * 2 ELSE 0.0 END")[0].expressions[0]
>>> Translator(lambda tree: col(tree.name) if isinstance(tree, exp.Column) else None)(tree).data()[:2]
['call', 'if']
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from shoal.errors import SqlError, did_you_mean
from shoal.language.sql.dialect import call_name, place, quoted
from shoal.model.query.expression import Binary, Constant, Expression, Not, Value
from shoal.model.query.functions import FUNCTIONS, Call, Function

_UNITS_US = {
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
_SHORT_UNITS = {"MS": "MILLISECOND", "S": "SECOND", "SEC": "SECOND", "MIN": "MINUTE", "H": "HOUR", "D": "DAY"}
_OTHER_NAMES = {
    "CEILING": "ceil",
    "CHAR_LENGTH": "length",
    "CHARACTER_LENGTH": "length",
    "POW": "power",
    "SUBSTR": "substring",
}
TYPES: Mapping[Any, str] = {
    **dict.fromkeys((exp.DType.BIGINT, exp.DType.INT, exp.DType.SMALLINT, exp.DType.TINYINT), "int64"),
    **dict.fromkeys((exp.DType.DOUBLE, exp.DType.FLOAT), "float64"),
    **dict.fromkeys((exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR), "string"),
    **dict.fromkeys((exp.DType.TIMESTAMP, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ), "timestamp"),
    exp.DType.BOOLEAN: "bool",
}
"""Shoal's types by those of SQL."""
_BINARY: Mapping[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "sub",
    exp.Mul: "mul",
    exp.Div: "div",
    exp.IntDiv: "floordiv",
    exp.Mod: "mod",
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
NO_NULLS = "there are no NULLs in Shoal"


@dataclass(frozen=True)
class Translator:
    """Turns syntax trees into expressions.

    `special` is called first at every node and resolves columns; `functions` are the user's.
    """

    special: Callable[[exp.Expr], Expression | None]
    functions: Mapping[str, Function] = field(default_factory=dict)
    where: str = "sql"

    def __call__(self, tree: exp.Expr) -> Expression:
        """The expression a tree stands for."""
        found = self.special(tree)
        if found is not None:
            return found
        if type(tree) in _BINARY:
            return self._binary(_BINARY[type(tree)], tree)
        form = _FORMS.get(type(tree))
        if form is None:
            raise self.unsupported(tree, "expressions are columns, constants, operators, CASE, CAST and functions")
        found = form(self, tree)
        return negation(found) if tree.args.get("negate") else found

    def unsupported(self, tree: exp.Expr, hint: str) -> SqlError:
        """The error for a clause that is not supported."""
        return SqlError(f"{self.where}: {quoted(tree)!r} is not supported; {hint}")

    def constant(self, tree: exp.Expr) -> Value:
        """A constant's value; anything else is refused."""
        found = _plain(self(tree))
        if not isinstance(found, Constant):
            raise SqlError(f"{self.where}: expected a constant; got {quoted(tree)!r}")
        return found.value

    def _binary(self, op: str, tree: exp.Expr) -> Expression:
        left, right = self(tree.this), self(tree.expression)
        if op in _COMPARISONS:
            left, right = _plain(left), _plain(right)
        return Binary(op, left, right)

    def literal(self, tree: exp.Expr) -> Expression:
        text = str(tree.this)
        if tree.args.get("is_string"):
            return Constant(text)
        return Constant(int(text)) if text.isdigit() else Constant(float(text))

    def negative(self, tree: exp.Expr) -> Expression:
        value = self(tree.this)
        if isinstance(value, Constant) and isinstance(value.value, int | float):
            return Constant(-value.value)
        return Binary("sub", Constant(0), value)

    def between(self, tree: exp.Expr) -> Expression:
        value, low, high = (_plain(self(tree.args[name])) for name in ("this", "low", "high"))
        return Binary("and", Binary("ge", value, low), Binary("le", value, high))

    def is_in(self, tree: exp.Expr) -> Expression:
        if not tree.expressions:
            raise self.unsupported(tree, "IN takes a list of constants; a sub-query belongs in FROM, with a JOIN")
        return self(tree.this).is_in([self.constant(choice) for choice in tree.expressions])

    def is_(self, tree: exp.Expr) -> Expression:
        if isinstance(tree.expression, exp.Null):
            self(tree.this)
            return Constant(False)
        condition = self(tree.this)
        return condition if tree.expression.this else negation(condition)

    def like(self, tree: exp.Expr) -> Expression:
        wanted = self.constant(tree.expression)
        text = str(wanted)
        inner = text.strip("%")
        forms = {inner: None, inner + "%": "starts_with", f"%{inner}%": "contains"}
        if text not in forms or any(mark in inner for mark in "%_") or not inner:
            raise self.unsupported(tree, "LIKE takes 'begin%', '%middle%' or a text without % and _")
        function = forms[text]
        value = self(tree.this)
        return Call(function, (value, Constant(inner))) if function else Binary("eq", value, Constant(inner))

    def case(self, tree: exp.Expr) -> Expression:
        if tree.args.get("default") is None:
            raise SqlError(f"{self.where}: {quoted(tree)!r} needs an ELSE, since {NO_NULLS}")
        chosen = self(tree.args["default"])
        for branch in reversed(tree.args["ifs"]):
            condition = self(branch.this)
            if tree.this is not None:
                condition = Binary("eq", self(tree.this), condition)
            chosen = Call("if", (condition, self(branch.args["true"]), chosen))
        return chosen

    def if_(self, tree: exp.Expr) -> Expression:
        if tree.args.get("false") is None:
            raise SqlError(f"{self.where}: {quoted(tree)!r} needs a third value, since {NO_NULLS}")
        return Call("if", (self(tree.this), self(tree.args["true"]), self(tree.args["false"])))

    def cast(self, tree: exp.Expr) -> Expression:
        type_ = TYPES.get(tree.args["to"].this, "bool")
        if type_ == "bool":
            raise self.unsupported(tree, "CAST is to BIGINT, DOUBLE, STRING or TIMESTAMP")
        if type_ == "timestamp" and isinstance(tree.this, exp.Literal) and tree.this.is_string:
            return Call("as_timestamp", (Constant(_time_us(tree, self.where)),))
        return Call(f"as_{type_}", (self(tree.this),))

    def extract(self, tree: exp.Expr) -> Expression:
        part = tree.this.name.lower()
        if part not in ("hour", "minute", "second"):
            raise self.unsupported(tree, "EXTRACT takes HOUR, MINUTE or SECOND")
        return Call(part, (self(tree.expression),))

    def substring(self, tree: exp.Expr) -> Expression:
        if tree.args.get("length") is None:
            raise self.unsupported(tree, "SUBSTRING needs a length: SUBSTRING(text, 1, 3)")
        return Call("substring", tuple(self(tree.args[name]) for name in ("this", "start", "length")))

    def call(self, tree: exp.Expr) -> Expression:
        name, arguments = call_name(tree), tree.expressions
        own = {key.upper(): function for key, function in self.functions.items()}
        function = self.functions.get(tree.name) or own.get(name)
        if function is not None:
            return function(*(self(argument) for argument in arguments))
        if name == "MOD" and len(arguments) == 2:
            return Binary("mod", self(arguments[0]), self(arguments[1]))
        if name == "COALESCE" and arguments:
            return self(arguments[0])
        built_in = _OTHER_NAMES.get(name, name.lower())
        if built_in not in FUNCTIONS or built_in.startswith("as_"):
            known = sorted([*(key.upper() for key in FUNCTIONS if not key.startswith("as_")), *self.functions])
            hint = did_you_mean(tree.name, known) or f"; there are {', '.join(known)}"
            raise SqlError(f"{place(tree, self.where)}: there is no function {tree.name!r} here{hint}")
        return Call(built_in, tuple(self(argument) for argument in arguments))


def conjuncts(tree: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND combines."""
    if tree is None:
        return []
    if isinstance(tree, exp.Paren):
        return conjuncts(tree.this) if isinstance(tree.this, exp.And | exp.Paren) else [tree]
    return [*conjuncts(tree.this), *conjuncts(tree.expression)] if isinstance(tree, exp.And) else [tree]


def conjunction(conditions: list[Expression]) -> Expression | None:
    """All conditions as one; None if there are none."""
    found: Expression = Constant(True)
    for condition in conditions:
        found = _logic("and", found, condition)
    return None if isinstance(found, Constant) and found.value is True else found


def negation(condition: Expression) -> Expression:
    """The opposite of a condition."""
    if isinstance(condition, Constant) and isinstance(condition.value, bool):
        return Constant(not condition.value)
    return Not(condition)


def interval_us(tree: exp.Expr | None, where: str) -> int:
    """The microseconds of an interval such as INTERVAL '10' SECOND or INTERVAL '1 h'."""
    unit = tree.args.get("unit") if isinstance(tree, exp.Interval) else None
    given = unit.name.upper() if isinstance(unit, exp.Var) else ""
    name = _SHORT_UNITS.get(given, given.removesuffix("S"))
    if tree is None or name not in _UNITS_US:
        got = quoted(tree) if tree is not None else "nothing"
        units = ", ".join(_UNITS_US)
        raise SqlError(f"{where}: expected an interval such as INTERVAL '10' SECOND ({units}); got {got!r}")
    try:
        return int(Decimal(tree.this.name) * _UNITS_US[name])
    except InvalidOperation:
        raise SqlError(f"{where}: an interval needs a number, as in INTERVAL '1' DAY; got {quoted(tree)!r}") from None


def _logic(op: str, left: Expression, right: Expression) -> Expression:
    """Both conditions as one; constants are folded."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Constant) and isinstance(one.value, bool):
            return other if one.value is (op == "and") else one
    return Binary(op, left, right)


def _plain(value: Expression) -> Expression:
    """A constant time as the microseconds that times are compared with."""
    constant = isinstance(value, Call) and value.function == "as_timestamp" and value.arguments[0]
    return constant if isinstance(constant, Constant) else value


def _time_us(tree: exp.Expr, where: str) -> int:
    try:
        time = datetime.fromisoformat(str(tree.this.this))
    except ValueError:
        raise SqlError(f"{where}: expected a time like '2024-01-31 12:00:00'; got {quoted(tree.this)}") from None
    since = time.replace(tzinfo=time.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


_FORMS: Mapping[type[exp.Expr], Callable[[Translator, exp.Expr], Expression]] = {
    exp.Literal: Translator.literal,
    exp.Boolean: lambda _, tree: Constant(bool(tree.this)),
    exp.Paren: lambda translate, tree: translate(tree.this),
    exp.Neg: Translator.negative,
    exp.And: lambda translate, tree: _logic("and", translate(tree.this), translate(tree.expression)),
    exp.Or: lambda translate, tree: _logic("or", translate(tree.this), translate(tree.expression)),
    exp.Not: lambda translate, tree: negation(translate(tree.this)),
    exp.Between: Translator.between,
    exp.In: Translator.is_in,
    exp.Is: Translator.is_,
    exp.Like: Translator.like,
    exp.Case: Translator.case,
    exp.If: Translator.if_,
    exp.Cast: Translator.cast,
    exp.Extract: Translator.extract,
    exp.Substring: Translator.substring,
    exp.Interval: lambda translate, tree: Constant(interval_us(tree, translate.where)),
    exp.DPipe: lambda translate, tree: Call("concat", (translate(tree.this), translate(tree.expression))),
    exp.Anonymous: Translator.call,
}
