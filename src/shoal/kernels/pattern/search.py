"""The search for patterns: at each row where a match may begin, the first match in order of preference.

As in regular expressions, an element takes as many rows as it can, unless it is reluctant, and the search backtracks if
the rest does not fit. A search that needs rows which have not arrived yet is undecided.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.table import Ints
from shoal.kernels.compiled import compiled
from shoal.model.query.pattern import UNLIMITED, Element, Pattern

FAILED, FOUND, UNDECIDED = 0, 1, 2
NO_OPTION, FINISH = -1, -2
PATIENCE = 256
"""Rows that an attempt gives back before it begins to remember failed states."""
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class SearchProgram:
    """A pattern as arrays: per element that takes rows its variables, bounds, and the variables forbidden before it.

    `onward`: the elements that may take the next row once those before are done, or FINISH, preferred ones first.
    `count_limit`: per element, the number of its rows beyond which the exact number makes no difference.
    """

    variables: Ints
    least: Ints
    most: Ints
    reluctant: Bools
    forbidden: Ints
    order: Ints
    onward: Ints
    count_limit: Ints
    strict: bool
    overlapping: bool

    @classmethod
    def of(cls, pattern: Pattern, *, strict: bool, overlapping: bool) -> "SearchProgram":
        """The arrays of a pattern."""
        bit = {name: 1 << i for i, name in enumerate(pattern.variables)}
        number = {name: i for i, name in enumerate(pattern.variables)}
        forbidden, pending = [], 0
        taking = [element for element in pattern.elements if not element.negated]
        for element in pattern.elements:
            if element.negated:
                pending |= sum(bit[name] for name in element.variables)
            else:
                forbidden.append(pending)
                pending = 0
        widest = max(len(element.variables) for element in taking)
        order = np.full((len(taking), widest), -1, np.int64)
        for i, element in enumerate(taking):
            order[i, : len(element.variables)] = [number[name] for name in element.variables]
        return cls(
            np.array([sum(bit[name] for name in element.variables) for element in taking], np.int64),
            np.array([element.least for element in taking], np.int64),
            np.array([element.most for element in taking], np.int64),
            np.array([element.reluctant for element in taking], bool),
            np.array(forbidden, np.int64),
            order,
            _onward(taking),
            np.array([e.least if e.most == UNLIMITED else e.most for e in taking], np.int64),
            strict,
            overlapping,
        )


def _onward(elements: Sequence[Element]) -> Ints:
    """An optional element is preferred to its successors if it is greedy, and comes after them if it is reluctant."""
    ways: list[list[int]] = [[FINISH]]
    for number, element in reversed(list(enumerate(elements))):
        if element.least:
            ways.append([number])
        else:
            ways.append([*ways[-1], number] if element.reluctant else [number, *ways[-1]])
    onward = np.full((len(ways), len(ways) + 1), NO_OPTION, np.int64)
    for i, way in enumerate(reversed(ways)):
        onward[i, : len(way)] = way
    return onward


@dataclass(frozen=True)
class Found:
    """Matches as lists of rows with their variables, the rows to keep, and where matches may still begin."""

    match: Ints
    row: Ints
    variable: Ints
    kept: Bools
    begins: Bools


def search(
    program: SearchProgram, begin: Ints, times: Ints, fits: Ints, begins: Bools, within_us: int, limit_us: int
) -> Found:
    """All final matches in rows sorted by group and time; `begin` holds where each group begins, and the end.

    A match that begins at or after `limit_us` may still get further rows.
    """
    begins = begins.copy()
    kept = np.zeros(times.size, bool)
    elements = (
        program.variables,
        program.least,
        program.most,
        program.reluctant,
        program.forbidden,
        program.order,
        program.onward,
        program.count_limit,
    )
    match, row, variable = _search(
        elements, (program.strict, program.overlapping), begin, (times, fits), begins, kept, (within_us, limit_us)
    )
    return Found(match, row, variable, kept, begins)


@compiled
def _search(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0915  (one compiled loop)
    elements, policy, begin, rows, begins, kept, bounds
):
    """Search all groups, one by one."""
    capacity = 64
    match, row, variable = np.empty(capacity, np.int64), np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    used, number = 0, 0
    longest = 0
    for g in range(begin.size - 1):
        longest = max(longest, begin[g + 1] - begin[g])
    stack = np.empty((longest + 1, 4), np.int64)
    for g in range(begin.size - 1):
        at, stop = begin[g], begin[g + 1]
        undecided = -1
        while at < stop:
            if not begins[at]:
                at += 1
                continue
            verdict, depth = _attempt(elements, policy[0], at, stop, rows, bounds, stack)
            if verdict == UNDECIDED:
                if undecided < 0:
                    undecided = at
                if not policy[1]:
                    break
                at += 1
                continue
            begins[at] = False
            if verdict == FAILED:
                at += 1
                continue
            while used + depth > capacity:
                capacity *= 2
                match, row, variable = _larger(match, capacity), _larger(row, capacity), _larger(variable, capacity)
            for i in range(depth):
                match[used] = number
                row[used] = stack[i, 2]
                variable[used] = _variable(elements, stack[i, 0], rows[1][stack[i, 2]])
                used += 1
            number += 1
            if policy[1]:
                at += 1
            else:
                last = stack[depth - 1, 2]
                begins[at : last + 1] = False
                at = last + 1
        if undecided >= 0:
            kept[undecided:stop] = True
    return match[:used], row[:used], variable[:used]


@compiled
def _larger(array, capacity):  # type: ignore[no-untyped-def]
    grown = np.empty(capacity, np.int64)
    grown[: array.size] = array
    return grown


@compiled
def _variable(elements, element, fits):  # type: ignore[no-untyped-def]
    """The first variable of an element that a row fits."""
    order = elements[5]
    for i in range(order.shape[1]):
        name = order[element, i]
        if name >= 0 and fits >> name & 1:
            return name
    return -1


@compiled
def _option(elements, element, count, choice):  # type: ignore[no-untyped-def]
    """The element that takes the next row as choice number `choice`, or FINISH; NO_OPTION beyond the last choice."""
    least, most, reluctant, onward = elements[1], elements[2], elements[3], elements[6]
    if element < 0:
        return onward[0, choice]
    again = count < most[element]
    if again and not reluctant[element]:
        if choice == 0:
            return element
        choice -= 1
    if count >= least[element]:
        row = onward[element + 1]
        if choice < row.size and row[choice] != NO_OPTION:
            return row[choice]
        for i in range(row.size):
            if row[i] == NO_OPTION:
                break
            choice -= 1
    return element if again and reluctant[element] and choice == 0 else NO_OPTION


@compiled
def _fits_any(elements, element, count, fits):  # type: ignore[no-untyped-def]
    """Whether a row fits some option."""
    choice = 0
    while True:
        option = _option(elements, element, count, choice)
        if option == NO_OPTION:
            return False
        if option != FINISH and fits & elements[0][option] != 0:
            return True
        choice += 1


@compiled
def _is_forbidden(elements, element, count, fits):  # type: ignore[no-untyped-def]
    """Whether a skipped row is forbidden between this element and the next."""
    least, forbidden = elements[1], elements[4]
    if element < 0 or count < least[element] or element + 1 == least.size:
        return False
    return fits & forbidden[element + 1] != 0


@compiled
def _skip_unfit(elements, element, count, row, stop, rows, deadline):  # type: ignore[no-untyped-def]
    """The next row that fits an option or is past the deadline; -1 if a forbidden row comes before it."""
    times, fits = rows
    if _option(elements, element, count, 0) == FINISH:
        return row
    while row < stop and times[row] <= deadline and not _fits_any(elements, element, count, fits[row]):
        if _is_forbidden(elements, element, count, fits[row]):
            return -1
        row += 1
    return row


@compiled
def _state_index(elements, element, count, row):  # type: ignore[no-untyped-def]
    """The index of a search state: a row taken by an element that then has `count` rows."""
    count_limit = elements[7]
    return (row * count_limit.size + element) * (count_limit.max() + 1) + min(count, count_limit[element])


@compiled
def _attempt(elements, strict, start, stop, rows, bounds, stack):  # type: ignore[no-untyped-def]
    """Search a match that begins with row `start`: the verdict, and its number of rows.

    The stack holds, per row taken, the element that took it, that element's number of rows, the row, and the choice.
    """
    times, fits = rows
    deadline = times[start] + bounds[0]
    open_ended = times[start] >= bounds[1]
    depth, row, choice, given_back = 0, start, 0, 0
    failed = np.zeros(0, np.bool_)
    while True:
        element = stack[depth - 1, 0] if depth else -1
        count = stack[depth - 1, 1] if depth else 0
        if choice == 0 and depth and not strict:
            row = _skip_unfit(elements, element, count, row, stop, rows, deadline)
        option = NO_OPTION if row < 0 else _option(elements, element, count, choice)
        if option == FINISH:
            return FOUND, depth
        if option == NO_OPTION:
            if depth == 0:
                return FAILED, 0
            depth -= 1
            given_back += 1
            if given_back == PATIENCE:
                failed = np.zeros((stop - start) * elements[7].size * (elements[7].max() + 1), np.bool_)
            if failed.size:
                failed[_state_index(elements, stack[depth, 0], stack[depth, 1], stack[depth, 2] - start)] = True
            row, choice = stack[depth, 2], stack[depth, 3] + 1
            continue
        if row >= stop and open_ended:
            return UNDECIDED, 0
        taken = count + 1 if option == element else 1
        fitting = row < stop and times[row] <= deadline and fits[row] & elements[0][option] != 0
        if fitting and failed.size and failed[_state_index(elements, option, taken, row - start)]:
            fitting = False
        if fitting:
            stack[depth, 0] = option
            stack[depth, 1] = taken
            stack[depth, 2] = row
            stack[depth, 3] = choice
            depth += 1
            row, choice = row + 1, 0
        else:
            choice += 1
