"""Operators of random graphs that merge branches: joins, cogroups, unions, static tables."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from tests.random_branches import MOST_ROWS, WINDOW_NAMES, Branch, Unfit
from tests.random_expressions import TEXTS, Draw, condition, names_of, quarters
from tests.random_windows import aggregates, timed

from shoal.errors import GraphError
from shoal.kernels.columns.block import ARROW_TYPES
from shoal.language.python.flow import KEY_TYPES, Flow
from shoal.language.python.join import HAS_LEFT, HAS_RIGHT
from shoal.model.query.schema import FieldType
from shoal.model.query.window import AnyWindow, rows, sessions

_ADDED: Mapping[FieldType, st.SearchStrategy[Any]] = {
    "int64": st.integers(-3, 3),
    "float64": quarters(-2, 2),
    "string": st.sampled_from(TEXTS),
}


def joined(draw: Draw, left: Branch, right: Branch) -> Branch:
    """Pairs of rows."""
    most = left.rows * right.rows + left.rows + right.rows
    if most > MOST_ROWS:
        raise Unfit
    how = draw(st.sampled_from(["inner", "left", "full"]))
    if how != "inner":
        left, right = (side.hardened().without(HAS_LEFT, HAS_RIGHT) for side in (left, right))
    lower = draw(st.integers(-10, 5))
    terms: dict[str, Any] = {
        "on": _keys(draw, left, right),
        "within_s": (lower, lower + draw(st.sampled_from([0, 1, 5, 20, 60]))),
        "band": _band(draw, left, right),
        "how": how,
    }
    if terms["on"]:
        terms["groups"] = draw(st.sampled_from([1, 1, 2, 4]))
    flow = _with_suffix(left.flow, right.flow, terms)
    if draw(st.booleans()):
        decisive = Branch(flow, 0).hard
        flow = _with_suffix(left.flow, right.flow, {**terms, "where": condition(draw, decisive, 1)})
    return left.then(flow, rows=most)


def _with_suffix(left: Flow, right: Flow, terms: dict[str, Any]) -> Flow:
    """The join with the first suffix that makes all names different."""
    for number in count(1):
        try:
            return left.join(right, **terms, suffix="_right" if number == 1 else f"_right{number}")
        except GraphError as error:
            if "declared twice" not in str(error) or number > 20:
                raise
    raise AssertionError


def _keys(draw: Draw, left: Branch, right: Branch) -> dict[str, str]:
    """Up to two pairs of columns of one type, mostly of one name."""
    same = [(name, name) for name, type_ in left.hard.items() if type_ in KEY_TYPES and right.hard.get(name) == type_]
    other = [
        (ours, theirs)
        for ours, type_ in left.hard.items()
        for theirs, their_type in right.hard.items()
        if type_ == their_type and type_ in ("int64", "string", "bool") and ours != theirs
    ]
    choices = [*([same] if same else []), *([same] if same else []), *([other] if other else [])]
    if not choices:
        return {}
    pairs = draw(st.lists(st.sampled_from(draw(st.sampled_from(choices))), max_size=2, unique=True))
    return dict(pairs)


def _band(draw: Draw, left: Branch, right: Branch) -> tuple[str, str, float | None, float | None] | None:
    if draw(st.integers(0, 2)):
        return None
    types = draw(st.sampled_from([("int64", "timestamp"), ("float64",)]))
    ours, theirs = names_of(left.hard, *types), names_of(right.hard, *types)
    if not ours or not theirs:
        return None
    here, there = draw(st.sampled_from(ours)), draw(st.sampled_from(theirs))
    least = draw(st.integers(-4, 2))
    most = least + draw(st.integers(0, 5))
    scale = 1_000_000 if "timestamp" in (left.types[here], right.types[there]) else 1
    open_end = draw(st.sampled_from(["neither", "least", "most"]))
    return here, there, None if open_end == "least" else least * scale, None if open_end == "most" else most * scale


def cogrouped(draw: Draw, left: Branch, right: Branch) -> Branch:
    """Windows of two branches, by key."""
    left, right = (side.hardened().without(HAS_LEFT, HAS_RIGHT) for side in (left, right))
    same = [
        name
        for name, type_ in left.types.items()
        if type_ in KEY_TYPES
        and right.types.get(name) == type_
        and name not in WINDOW_NAMES
        and not name.endswith("_right")
    ]
    kinds: Sequence[AnyWindow] = (timed(draw), timed(draw), sessions(2.0), rows(2))
    window = draw(st.sampled_from(kinds))
    most = 4 * (left.rows + right.rows)
    if not same or most > MOST_ROWS:
        raise Unfit
    on = draw(st.lists(st.sampled_from(same), min_size=1, max_size=2, unique=True))
    sides = {
        side: aggregates(draw, branch.types, tuple(on), plain=True)
        for side, branch in (("left", left), ("right", right))
    }
    groups = draw(st.sampled_from([1, 1, 3]))
    flow = left.flow.cogroup(right.flow, window, on=on, left=sides["left"], right=sides["right"], groups=groups)
    return left.then(flow, rows=most)


def united(draw: Draw, branches: Sequence[Branch]) -> Branch:
    """The rows of several branches, with the columns they have in common."""
    first = branches[0]
    common = _common(branches)
    most = sum(branch.rows for branch in branches)
    if not common or most > MOST_ROWS:
        raise Unfit
    flows = [_in_order(branch, common) for branch in branches]
    due = frozenset.intersection(*(branch.due for branch in branches))
    return first.then(flows[0].union(*flows[1:]), rows=most, due=due)


def can_unite(one: Branch, other: Branch) -> bool:
    """Whether two branches have columns in common that a union can go by."""
    return bool(_common([one, other]))


def _common(branches: Sequence[Branch]) -> list[str]:
    """The columns that all branches have, if one of them is hard and the time columns are among them."""
    first = branches[0]
    names = [
        name for name, type_ in first.types.items() if all(branch.types.get(name) == type_ for branch in branches[1:])
    ]
    times = {branch.flow.time for branch in branches if not branch.has_own_time}
    return names if times <= set(names) and first.hard.keys() & set(names) else []


def _in_order(branch: Branch, names: list[str]) -> Flow:
    return branch.flow if list(branch.types) == names else branch.flow.select(*names)


def looked_up(draw: Draw, branch: Branch) -> Branch:
    """The columns of a static table."""
    choices = names_of(branch.hard, "int64", "string")
    how = draw(st.sampled_from(["inner", "left"]))
    if how == "left":
        branch = branch.without(HAS_RIGHT)
    choices = [name for name in choices if name in branch.types]
    if not choices:
        raise Unfit
    on = draw(st.sampled_from(choices))
    values = st.integers(-2, 4) if branch.types[on] == "int64" else st.sampled_from(TEXTS)
    keys = draw(st.lists(values, min_size=1, max_size=4, unique=True))
    number = next(number for number in count() if not any(f"t{number}_{type_}" in branch.types for type_ in _ADDED))
    types = sorted(draw(st.sets(st.sampled_from(sorted(_ADDED)), min_size=1)))
    table: dict[str, Any] = {"key": pa.array(keys, ARROW_TYPES[branch.flow.schema.type_of(on)])}
    for type_ in types:
        values = draw(st.lists(st.none() | _ADDED[type_], min_size=len(keys), max_size=len(keys)))
        table[f"t{number}_{type_}"] = pa.array(values, ARROW_TYPES[type_])
    defaults = {f"t{number}_{types[0]}": draw(_ADDED[types[0]])} if how == "left" and draw(st.booleans()) else None
    flow = branch.flow.lookup_join(table, on={on: "key"}, how=how, defaults=defaults)
    return branch.then(flow, due=branch.due)
