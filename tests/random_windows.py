"""Operators of random graphs that go by time and keys: windows, rank, deduplicate, match."""

from hypothesis import strategies as st
from tests.random_branches import MOST_ROWS, SOFT, WINDOW_NAMES, Branch, fresh
from tests.random_expressions import Draw, Types, condition, names_of

from shoal.language.python.flow import WINDOW_END
from shoal.model.query.aggregate import (
    Aggregate,
    count,
    count_distinct,
    max_,
    mean,
    min_,
    stddev,
    sum_,
    top_k,
    variance,
)
from shoal.model.query.expression import Expression
from shoal.model.query.pattern import pattern
from shoal.model.query.window import AnyWindow, Rows, Window, hop, rows, sessions, tumbling

MANY_ROWS = 500
_TIMES = ("", "", "", "+", "*", "?", "{2}", "{1,3}", "{2,}")
_DEMANDING = ("", "", "+", "{1,2}")


def timed(draw: Draw) -> Window:
    """A window over event time."""
    slide = draw(st.sampled_from([0.5, 1.0, 2.5, 5.0, 20.0]))
    return hop(slide * draw(st.sampled_from([1, 1, 2, 4])), slide)


def windows(draw: Draw, branch: Branch) -> AnyWindow:
    """A window of any kind that a branch can have."""
    times = [name for name in names_of(branch.hard, "timestamp") if not branch.flow.schema.may_be_null(name)]
    kind = draw(st.sampled_from(["timed", "timed", "session", "rows", *(["external"] if times else [])]))
    if kind == "session":
        return sessions(draw(st.sampled_from([0.5, 1.0, 2.0, 5.0])))
    if kind == "rows":
        size = draw(st.integers(1, 5))
        return rows(size, draw(st.integers(1, size)), partial=draw(st.booleans()))
    if kind == "external":
        slide = draw(st.sampled_from([1.0, 2.0, 5.0]))
        on = draw(st.sampled_from(times))
        return draw(st.sampled_from([tumbling(slide, on=on), hop(3 * slide, slide, on=on)]))
    return timed(draw)


def aggregates(draw: Draw, types: Types, taken: tuple[str, ...], *, plain: bool = False) -> dict[str, Aggregate]:
    """One to four aggregates under names in ascending order; plain ones can be missing in a join."""
    numbers, comparable = names_of(types, "int64", "float64"), names_of(types, "int64", "float64", "timestamp")
    choices = [count(), *(count(name) for name in types)]
    choices += [make(name) for name in numbers for make in (sum_, mean)]
    choices += [make(name) for name in comparable for make in (min_, max_)]
    choices += [count_distinct(name) for name in names_of(types, "int64", "string", "bool", "timestamp")]
    if not plain:
        choices += [make(name) for name in numbers for make in (variance, stddev)]
        choices += [top_k(name, draw(st.integers(1, 3))) for name in numbers]
    chosen: dict[str, Aggregate] = {}
    for one in draw(st.lists(st.sampled_from(choices), min_size=1, max_size=4)):
        prefix = SOFT if one.kind in ("variance", "stddev") else "a"
        chosen[fresh(prefix, (*taken, *chosen))] = one
    return dict(sorted(chosen.items()))


def assigned(draw: Draw, branch: Branch) -> Branch:
    """Every row in each of its windows."""
    window = timed(draw)
    branch = branch.without(*WINDOW_NAMES).of_at_most(MOST_ROWS // window.panes)
    return branch.then(branch.flow.assign(window), rows=branch.rows * window.panes, due=[WINDOW_END])


def aggregated(draw: Draw, branch: Branch) -> Branch:
    """Aggregates of windows per key."""
    window = windows(draw, branch)
    row_order = isinstance(window, Rows) or (isinstance(window, Window) and bool(window.on))
    branch = branch.hardened() if row_order else branch
    flow = branch.keyed(draw)
    panes = window.panes if isinstance(window, Window) else 1
    branch.of_at_most(MOST_ROWS // panes)
    chosen = aggregates(draw, branch.hard, flow.keys)
    external = isinstance(window, Window) and window.on
    due = [] if external else [WINDOW_END]
    return branch.then(flow.window(window).aggregate(**chosen), rows=branch.rows * panes, due=due)


def ranked(draw: Draw, branch: Branch) -> Branch:
    """The first rows of each time and key."""
    branch = branch.hardened()
    flow = branch.keyed(draw)
    names = draw(st.lists(st.sampled_from(sorted(branch.types)), min_size=1, max_size=2, unique=True))
    by = [(name, draw(st.booleans())) for name in names]
    column = fresh("rank", branch.types)
    return branch.then(flow.rank(by, draw(st.integers(1, 3)), ties=draw(st.booleans()), column=column), due=branch.due)


def deduplicated(draw: Draw, branch: Branch) -> Branch:
    """A row per key and time span."""
    branch = branch.hardened()
    flow = branch.keyed(draw, least=1)
    within_s = draw(st.sampled_from([0.5, 1.0, 5.0, 20.0]))
    return branch.then(flow.deduplicate(within_s), due=branch.due)


def matched(draw: Draw, branch: Branch) -> Branch:
    """Runs of rows per key."""
    branch = branch.hardened()
    many = branch.rows > MANY_ROWS
    flow = branch.keyed(draw, least=1 if many else 0)
    selection = draw(st.sampled_from(["strict", "next"]))
    wanted = pattern(patterns(draw, negated=selection == "next"))
    define: dict[str, Expression] = {
        variable: condition(draw, branch.types, 1, previous=True)
        for variable in sorted(wanted.variables)
        if draw(st.integers(0, 3))
    }
    found = flow.match(
        wanted.text,
        within_s=draw(st.sampled_from([1.0, 5.0] if many else [1.0, 5.0, 10.0, 30.0])),
        measures=_measures(draw, branch.types, wanted.variables, flow.keys),
        define=define,
        after=draw(st.sampled_from(["past_last_row", "next_row"])),
        selection=selection,
    )
    return branch.then(found)


def patterns(draw: Draw, *, negated: bool) -> str:
    """A pattern that demands a row; around a negated element nothing is optional or demanded twice."""
    elements = [draw(st.sampled_from("ABCD")) + draw(st.sampled_from(_DEMANDING))]
    for _ in range(draw(st.integers(0, 3))):
        if negated and not draw(st.integers(0, 2)):
            before, after = draw(st.sampled_from(["A", "B+", "B+?"])), draw(st.sampled_from(["A", "C", "C+", "C{1,2}"]))
            elements += [before, f"!{draw(st.sampled_from('CD'))}", after]
        else:
            names = draw(st.sampled_from(["A", "B", "C", "D", "(A | B)", "(C | A)"]))
            times = draw(st.sampled_from(_TIMES))
            elements.append(names + times + ("?" if times and draw(st.booleans()) else ""))
    turn = draw(st.integers(0, 1)) if not any("!" in element for element in elements) else 0
    return " ".join(reversed(elements) if turn else elements)


def _measures(draw: Draw, types: Types, variables: tuple[str, ...], taken: tuple[str, ...]) -> dict[str, str]:
    rows_of = ["", *(f"{variable}." for variable in variables)]
    choices = ["count(*)", *(f"count({variable})" for variable in variables)]
    choices += [f"count({of}{name})" for of in rows_of for name in types if name not in variables]
    for name, type_ in types.items():
        kinds = ["first", "last"]
        kinds += ["sum", "mean"] if type_ in ("int64", "float64") else []
        kinds += ["min", "max"] if type_ in ("int64", "float64", "timestamp") else []
        choices += [f"{kind}({of}{name})" for kind in kinds for of in rows_of]
    chosen: dict[str, str] = {}
    for text in draw(st.lists(st.sampled_from(choices), min_size=1, max_size=4)):
        chosen[fresh("m", (*taken, *chosen))] = text
    return dict(sorted(chosen.items()))
