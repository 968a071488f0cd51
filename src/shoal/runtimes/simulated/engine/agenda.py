"""The agenda: future events in the order of time, then of their numbers; a binary heap.

Numbers are given in the order in which events are added, so that events of one time always come in the same order.
"""

from typing import Any

from shoal.kernels.compiled import compiled
from shoal.runtimes.simulated.engine import memory


@compiled
def _is_before(times: Any, rows: Any, one: int, other: int) -> bool:
    if times[one] != times[other]:
        return bool(times[one] < times[other])
    return bool(rows[one, 0] < rows[other, 0])


@compiled
def _swap(times: Any, rows: Any, one: int, other: int) -> None:
    times[one], times[other] = times[other], times[one]
    for column in range(4):
        rows[one, column], rows[other, column] = rows[other, column], rows[one, column]


@compiled
def add(world: Any, time_s: float, kind: int, first: int, second: int) -> None:
    """Add an event; there must be room for it."""
    core, times, rows = memory.core(world)[0], memory.agenda_times(world), memory.agenda_rows(world)
    place = core.agenda
    times[place] = time_s
    rows[place, 0], rows[place, 1], rows[place, 2], rows[place, 3] = core.agenda_number, kind, first, second
    core.agenda += 1
    core.agenda_number += 1
    while place:
        above = (place - 1) // 2
        if not _is_before(times, rows, place, above):
            break
        _swap(times, rows, place, above)
        place = above


@compiled
def remove_first(world: Any) -> None:
    """Remove the earliest event."""
    core, times, rows = memory.core(world)[0], memory.agenda_times(world), memory.agenda_rows(world)
    core.agenda -= 1
    last = core.agenda
    _swap(times, rows, 0, last)
    place = 0
    while True:
        least, below = place, 2 * place + 1
        if below < last and _is_before(times, rows, below, least):
            least = below
        if below + 1 < last and _is_before(times, rows, below + 1, least):
            least = below + 1
        if least == place:
            break
        _swap(times, rows, place, least)
        place = least
