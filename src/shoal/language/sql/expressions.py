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

from shoal.errors import GraphError, SqlError, did_you_mean
from shoal.language.sql.dialect import call_name, parse, place, quoted
from shoal.language.sql.null_forms import (
    UNKNOWN,
    UntypedNull,
    alike,
    case,
    choice,
    condition,
    is_,
    is_in,
    negation,
    same,
)
from shoal.language.sql.null_forms import call as null_call
from shoal.model.query.expression import Binary, Constant, Expression, Value, col
from shoal.model.query.functions import FUNCTIONS, Call, Function, Null
from shoal.model.query.schema import FieldType, Schema

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
_OF_POINTS = {"ST_DISTANCE": "distance", "ST_DISTANCESPHERE": "haversine", "ST_DWITHIN": "distance"}
_POINTS = ("ST_POINT", "ST_MAKEPOINT")
TYPES: Mapping[Any, FieldType] = {
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
_MICROSECONDS = 6
"""Digits of a time's fraction of a second."""
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@dataclass(frozen=True)
class Translator:
    """Turns syntax trees into expressions.

    `special` is called first at every node and resolves columns; `functions` are the user's. `schema` gives the
    columns that expressions are over; without it types are not checked, and a NULL needs a CAST.
    """

    special: Callable[[exp.Expr], Expression | None]
    functions: Mapping[str, Function] = field(default_factory=dict)
    where: str = "sql"
    schema: Callable[[], Schema] | None = None

    def __call__(self, tree: exp.Expr) -> Expression:
        """The expression a tree stands for."""
        found = self.part(tree)
        if isinstance(found, UntypedNull):
            raise self.untyped(tree)
        return found

    def part(self, tree: exp.Expr) -> Expression:
        """The same for a part of an expression, which may be a NULL without a type."""
        found = self.special(tree)
        if found is None:
            found = self._formed(tree)
        if self.schema is not None and not isinstance(found, UntypedNull):
            self.type_of(found, tree)
        return found

    def condition(self, tree: exp.Expr) -> Expression:
        """The condition a tree stands for; a NULL is one that never holds."""
        found = condition(self, tree)
        if self.schema is not None and self.type_of(found, tree) != "bool":
            raise SqlError(f"{place(tree, self.where)}: expected a condition; got {quoted(tree)!r}")
        return found

    def _formed(self, tree: exp.Expr) -> Expression:
        if type(tree) in _BINARY:
            return self._binary(_BINARY[type(tree)], tree)
        form = _FORMS.get(type(tree))
        if form is None:
            raise self.unsupported(tree, "expressions are columns, constants, operators, CASE, CAST and functions")
        found = form(self, tree)
        return negation(found) if tree.args.get("negate") else found

    def type_of(self, value: Expression, tree: exp.Expr) -> FieldType:
        """The type of a value; an error quotes the tree it comes from."""
        if self.schema is None:
            raise self.untyped(tree)
        try:
            return value.type_in(self.schema(), quoted(tree))
        except GraphError as error:
            raise SqlError(f"{place(tree, self.where)}: {error}") from None

    def may_be_null(self, value: Expression) -> bool:
        """Whether a value can be null."""
        return self.schema is None or value.may_be_null(self.schema())

    def untyped(self, tree: exp.Expr) -> SqlError:
        """The error for a NULL whose type nothing says."""
        return SqlError(
            f"{place(tree, self.where)}: the type of NULL in {quoted(tree)!r} is not known; "
            "write e.g. CAST(NULL AS BIGINT)"
        )

    def unsupported(self, tree: exp.Expr, hint: str) -> SqlError:
        """The error for a clause that is not supported."""
        return SqlError(f"{place(tree, self.where)}: {quoted(tree)!r} is not supported; {hint}")

    def constant(self, tree: exp.Expr) -> Value:
        """A constant's value; anything else is refused."""
        found = _plain(self(tree))
        if not isinstance(found, Constant):
            raise SqlError(f"{place(tree, self.where)}: expected a constant; got {quoted(tree)!r}")
        return found.value

    def _binary(self, op: str, tree: exp.Expr) -> Expression:
        left, right = self.part(tree.this), self.part(tree.expression)
        if op in _COMPARISONS:
            if isinstance(left, UntypedNull) and isinstance(right, UntypedNull):
                return UNKNOWN
            left, right = _plain(left), _plain(right)
        return Binary(op, *alike(self, (left, right), tree))

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
        values = [self.part(tree.args[name]) for name in ("this", "low", "high")]
        value, low, high = (_plain(each) for each in alike(self, values, tree))
        return Binary("and", Binary("ge", value, low), Binary("le", value, high))

    def like(self, tree: exp.Expr) -> Expression:
        wanted = self.constant(tree.expression)
        text = wanted if isinstance(wanted, str) else "%"
        inner = text.strip("%")
        forms = {inner: None, inner + "%": "starts_with", f"%{inner}%": "contains"}
        if text not in forms or any(mark in inner for mark in "%_") or not inner:
            raise self.unsupported(tree, "LIKE takes 'begin%', '%middle%' or a text without % and _")
        function = forms[text]
        value = self(tree.this)
        return Call(function, (value, Constant(inner))) if function else Binary("eq", value, Constant(inner))

    def if_(self, tree: exp.Expr) -> Expression:
        otherwise = tree.args.get("false")
        value = UntypedNull() if otherwise is None else self.part(otherwise)
        return choice(self, condition(self, tree.this), self.part(tree.args["true"]), value, tree)

    def cast(self, tree: exp.Expr) -> Expression:
        wanted = tree.args["to"]
        type_ = TYPES.get(wanted.this)
        if type_ is not None and isinstance(tree.this, exp.Null):
            return Null(type_)
        if type_ is None or type_ == "bool":
            raise self.unsupported(tree, "CAST is to BIGINT, DOUBLE, STRING or TIMESTAMP")
        if wanted.expressions and not (type_ == "timestamp" and _precision(wanted) >= _MICROSECONDS):
            raise self.unsupported(tree, "CAST does not shorten: write STRING or TIMESTAMP without a length")
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
        if name in _OF_POINTS:
            return self._of_points(_OF_POINTS[name], tree)
        if name == "MOD" and len(arguments) == 2:
            return Binary("mod", self(arguments[0]), self(arguments[1]))
        found = null_call(self, tree)
        if found is not None:
            return found
        built_in = _OTHER_NAMES.get(name, name.lower())
        if built_in not in FUNCTIONS or built_in.startswith("as_"):
            known = sorted([*(key.upper() for key in FUNCTIONS if not key.startswith("as_")), *self.functions])
            hint = did_you_mean(tree.name, known) or f"; there are {', '.join(known)}"
            raise SqlError(f"{place(tree, self.where)}: there is no function {tree.name!r} here{hint}")
        return Call(built_in, tuple(self(argument) for argument in arguments))

    def _of_points(self, function: str, tree: exp.Expr) -> Expression:
        """A function of PostGIS: ST_Distance(ST_Point(x, y), ST_Point(x, y)), or within a distance."""
        points, bound = tree.expressions[:2], tree.expressions[2:]
        pairs = [point.expressions for point in points if call_name(point) in _POINTS]
        if [len(pair) for pair in pairs] != [2, 2] or len(bound) != (call_name(tree) == "ST_DWITHIN"):
            raise self.unsupported(tree, "write ST_Distance, ST_DistanceSphere or ST_DWithin of ST_Point(x, y) twice")
        apart = Call(function, tuple(self(each) for pair in pairs for each in pair))
        return Binary("le", apart, self(bound[0])) if bound else apart


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
    for each in conditions:
        found = _logic("and", found, each)
    return None if isinstance(found, Constant) and found.value is True else found


def interval_us(tree: exp.Expr | None, where: str) -> int:
    """The microseconds of an interval such as INTERVAL '10' SECOND or INTERVAL '1 h'."""
    unit = tree.args.get("unit") if isinstance(tree, exp.Interval) else None
    given = unit.name.upper() if isinstance(unit, exp.Var) else ""
    name = _SHORT_UNITS.get(given, given.removesuffix("S"))
    if tree is None or name not in _UNITS_US:
        got = quoted(tree) if tree is not None else "nothing"
        units = ", ".join(_UNITS_US)
        at = where if tree is None else place(tree, where)
        raise SqlError(f"{at}: expected an interval such as INTERVAL '10' SECOND ({units}); got {got!r}")
    try:
        return int(Decimal(tree.this.name) * _UNITS_US[name])
    except (InvalidOperation, ValueError, OverflowError):
        raise SqlError(
            f"{place(tree, where)}: an interval needs a number, as in INTERVAL '1' DAY; got {quoted(tree)!r}"
        ) from None


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


def _precision(type_: exp.Expr) -> int:
    """The digits that a type such as TIMESTAMP(3) names; 0 if that is no number."""
    text = type_.expressions[0].name
    return int(text) if text.isdigit() else 0


def _time_us(tree: exp.Expr, where: str) -> int:
    try:
        time = datetime.fromisoformat(str(tree.this.this))
    except ValueError:
        raise SqlError(
            f"{place(tree, where)}: expected a time like '2024-01-31 12:00:00'; got {quoted(tree.this)}"
        ) from None
    since = time.replace(tzinfo=time.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


_FORMS: Mapping[type[exp.Expr], Callable[[Translator, exp.Expr], Expression]] = {
    exp.Literal: Translator.literal,
    exp.Boolean: lambda _, tree: Constant(bool(tree.this)),
    exp.Null: lambda _, __: UntypedNull(),
    exp.Paren: lambda translate, tree: translate.part(tree.this),
    exp.Neg: Translator.negative,
    exp.And: lambda translate, tree: _logic(
        "and", condition(translate, tree.this), condition(translate, tree.expression)
    ),
    exp.Or: lambda translate, tree: _logic(
        "or", condition(translate, tree.this), condition(translate, tree.expression)
    ),
    exp.Not: lambda translate, tree: negation(condition(translate, tree.this)),
    exp.Between: Translator.between,
    exp.In: is_in,
    exp.Is: is_,
    exp.NullSafeEQ: same,
    exp.NullSafeNEQ: lambda translate, tree: negation(same(translate, tree)),
    exp.Like: Translator.like,
    exp.Case: case,
    exp.If: Translator.if_,
    exp.Cast: Translator.cast,
    exp.Extract: Translator.extract,
    exp.Substring: Translator.substring,
    exp.Interval: lambda translate, tree: Constant(interval_us(tree, translate.where)),
    exp.DPipe: lambda translate, tree: Call("concat", (translate(tree.this), translate(tree.expression))),
    exp.Anonymous: Translator.call,
}
