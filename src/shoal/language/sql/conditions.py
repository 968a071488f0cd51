"""Conditions of a JOIN in SQL, sorted into keys, bounds on time, a band, and the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from shoal.errors import SqlError, did_you_mean
from shoal.language.python.flow import KEY_TYPES
from shoal.language.python.join import Band
from shoal.language.sql.dialect import call_name, place, quoted
from shoal.language.sql.expressions import interval_us
from shoal.language.sql.relation import Relation
from shoal.model.query.window import Window

_BOUNDS = (
    "add bounds on the time of both sides, e.g. "
    "a.ts BETWEEN b.ts - INTERVAL '5' SECOND AND b.ts + INTERVAL '5' SECOND, or join windows on window_end"
)
_FLIPPED: Mapping[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE}


@dataclass(frozen=True)
class OffsetColumn:
    """A column of one side, moved by a constant."""

    right: bool
    column: str
    offset: float


@dataclass
class Conditions:
    """The conditions of a join; bounds are on the right value less the left one."""

    left: Relation
    right: Relation
    where: str
    keys: list[tuple[str, str]] = field(default_factory=list)
    same_window: bool = False
    lower_us: int | None = None
    upper_us: int | None = None
    band: Band | None = None
    rest: list[exp.Expr] = field(default_factory=list)

    def take(self, tree: exp.Expr) -> None:
        """Classify one condition."""
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if not (self._take_equality(tree) or self._take_comparison(tree) or self._take_range(tree)):
            self.rest.append(tree)

    def _take_equality(self, tree: exp.Expr) -> bool:
        if not isinstance(tree, exp.EQ):
            return False
        pair = self._across(self._point(tree.this), self._point(tree.expression))
        if pair is None or any(point.offset for point in pair):
            return False
        ours, theirs = pair[0].column, pair[1].column
        ends = self.left.end and self.right.end
        windows = ends and self.left.window == self.right.window and isinstance(self.left.window, Window)
        if ours in self.left.starts and theirs in self.right.starts and windows:
            self.same_window = True
            return True
        if ours in self.left.times and theirs in self.right.times:
            self.same_window = self.same_window or (ours == self.left.end != "" and theirs == self.right.end)
            return self._bound(pair, 0, 0)
        if self.left.flow.schema.type_of(ours) not in KEY_TYPES:
            return False
        self.keys.append((ours, theirs))
        return True

    def _take_comparison(self, tree: exp.Expr) -> bool:
        """One side of the bounds on time: a.ts <= b.ts + INTERVAL '1' MINUTE."""
        low, high, strict = tree.args.get("this"), tree.args.get("expression"), isinstance(tree, exp.LT | exp.GT)
        if type(tree) in _FLIPPED:
            low, high = high, low
        elif not isinstance(tree, exp.LT | exp.LTE):
            return False
        points = self._point(low), self._point(high)
        pair = self._across(*points)
        if pair is None or points[0] is None or not self._is_time(pair):
            return False
        distance = round(pair[0].offset - pair[1].offset)
        if points[0].right:
            return self._bound(pair, None, distance - strict)
        return self._bound(pair, distance + strict, None)

    def _take_range(self, tree: exp.Expr) -> bool:
        """Bounds on both sides: a BETWEEN, or ABS(a.x - b.y) <= 3."""
        found = self._between(tree) if isinstance(tree, exp.Between) else self._within(tree)
        if found is None or tree.args.get("negate"):
            return False
        pair, least, most = found
        if self._is_time(pair):
            return self._bound(pair, round(least), round(most))
        types = [self.left.flow.schema.type_of(pair[0].column), self.right.flow.schema.type_of(pair[1].column)]
        numbers = all(type_ in ("int64", "float64", "timestamp") for type_ in types)
        if self.band is not None or not numbers or (types[0] == "float64") != (types[1] == "float64"):
            return False
        self.band = (pair[0].column, pair[1].column, least, most)
        return True

    def _between(self, tree: exp.Expr) -> tuple[tuple[OffsetColumn, OffsetColumn], float, float] | None:
        value, low, high = (self._point(tree.args[name]) for name in ("this", "low", "high"))
        if value is None or low is None or high is None or (low.right, low.column) != (high.right, high.column):
            return None
        pair = self._across(value, low)
        if pair is None:
            return None
        least, most = low.offset - value.offset, high.offset - value.offset
        return (pair, least, most) if value.right else (pair, -most, -least)

    def _within(self, tree: exp.Expr) -> tuple[tuple[OffsetColumn, OffsetColumn], float, float] | None:
        inner = tree.this.expressions[0] if isinstance(tree, exp.LTE) and call_name(tree.this) == "ABS" else None
        if not isinstance(inner, exp.Sub):
            return None
        pair = self._across(self._point(inner.this), self._point(inner.expression))
        most = _number(tree.expression, self.where)
        if pair is None or most is None or any(point.offset for point in pair):
            return None
        return pair, -most, most

    def _across(self, one: OffsetColumn | None, other: OffsetColumn | None) -> tuple[OffsetColumn, OffsetColumn] | None:
        """Two columns, that of the left side first; None unless they are of different sides."""
        if one is None or other is None or one.right == other.right:
            return None
        return (other, one) if one.right else (one, other)

    def _is_time(self, pair: tuple[OffsetColumn, OffsetColumn]) -> bool:
        return pair[0].column in self.left.times and pair[1].column in self.right.times

    def _bound(self, pair: tuple[OffsetColumn, OffsetColumn], lower_us: int | None, upper_us: int | None) -> bool:
        """Bound the rows' times by a condition on two columns; true if the bound says it all."""
        ours, theirs = self.left.times[pair[0].column], self.right.times[pair[1].column]
        if lower_us is not None:
            lower_us += theirs[0] - ours[1]
            self.lower_us = lower_us if self.lower_us is None else max(self.lower_us, lower_us)
        if upper_us is not None:
            upper_us += theirs[1] - ours[0]
            self.upper_us = upper_us if self.upper_us is None else min(self.upper_us, upper_us)
        return ours[0] == ours[1] and theirs[0] == theirs[1]

    def _point(self, tree: exp.Expr | None) -> OffsetColumn | None:
        """A column of one side, or one that a constant is added to or taken from."""
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if isinstance(tree, exp.Add | exp.Sub):
            moved, by = self._point(tree.this), _number(tree.expression, self.where)
            if moved is None or by is None:
                return None
            return replace(moved, offset=moved.offset + (by if isinstance(tree, exp.Add) else -by))
        if not isinstance(tree, exp.Column):
            return None
        right = _owner(tree, (self.left, self.right), self.where) is self.right
        return OffsetColumn(right, (self.right if right else self.left).resolve(tree, self.where), 0)

    def within_us(self, tree: exp.Expr) -> tuple[int, int]:
        """The bounds on the rows' times."""
        if self.same_window:
            return 0, 0
        if self.lower_us is None or self.upper_us is None:
            raise SqlError(f"{place(tree, self.where)}: {quoted(tree)!r} would keep rows for ever; {_BOUNDS}")
        return self.lower_us, self.upper_us

    def on(self) -> dict[str, str]:
        """The keys, followed by the window's end if rows of one window are joined."""
        keys = dict(self.keys)
        return {**keys, self.left.end: self.right.end} if self.same_window else keys


def owners(tree: exp.Expr, relations: Sequence[Relation], where: str) -> list[int]:
    """The relations whose columns a condition reads, by position."""
    found = {id(_owner(column, relations, where)) for column in tree.find_all(exp.Column)}
    return [at for at, relation in enumerate(relations) if id(relation) in found]


def _owner(tree: exp.Expr, relations: Sequence[Relation], where: str) -> Relation:
    """The relation that a column belongs to."""
    table, name = tree.text("table"), tree.name
    fitting = [relation for relation in relations if not table or table in relation.tables]
    found = [each for each in fitting if any(name in names for a, names in each.tables.items() if table in ("", a))]
    if len(found) > 1:
        raise SqlError(f"{place(tree, where)}: column {name!r} is in several tables; write e.g. a.{name}")
    if not found:
        tables = {alias: names for relation in relations for alias, names in relation.tables.items()}
        known = "; ".join(f"{alias}: {', '.join(names)}" for alias, names in tables.items())
        near = did_you_mean(name, {each for names in tables.values() for each in names})
        raise SqlError(f"{place(tree, where)}: unknown column {quoted(tree)!r}; there are {known}{near}")
    return found[0]


def _number(tree: exp.Expr | None, where: str) -> float | None:
    """A constant number, or an interval as microseconds."""
    if isinstance(tree, exp.Interval):
        return interval_us(tree, where)
    if not isinstance(tree, exp.Literal) or tree.is_string:
        return None
    return int(tree.this) if str(tree.this).isdigit() else float(tree.this)
