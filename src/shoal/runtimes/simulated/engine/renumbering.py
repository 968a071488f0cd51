"""Renumbering: a simulation that gets more tasks and units while turns, moves and rows are under way."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.simulated.engine import arrays as a

Ints = NDArray[np.int64]
Records = NDArray[np.void]
OF_GRAPH = ("unit", "group", "fixed_s", "later_s", "out_start", "out_stop", "in_start", "in_stop")
"""What a task has from the new graph; all else it brings along. Those of the heap name other tasks."""
OF_HEAP = ("child", "sibling", "before")
OF_GRAPH_UNIT = ("start", "stop")
FIXED = ("tasks", "units", "unit_tasks", "outputs", "inputs", "cells")
"""Arrays of the new world; all others are those of the old one, with other numbers in them."""


def renumbered(old: a.World, new: a.World, edges: Ints, task_of: Ints, unit_of: Ints) -> tuple[a.World, Ints]:
    """The state of a world in another one that has more tasks; and cells that are ready now, as (row, task).

    `new`: as it begins, with `edges` between its tasks. `task_of`, `unit_of`: new numbers of old ones. Tasks that
    are new have nothing to do in steps that were read before.
    """
    world = old._replace(**{name: getattr(new, name) for name in FIXED})
    world = world._replace(
        **{name: getattr(old, name).copy() for name in ("workers", "sources", "queues", "agenda_rows", "flows")},
        results=_with(old.results, "task", task_of),
        moves=_with(old.moves, "unit", unit_of),
        cells=_cells(old, len(new.tasks), task_of),
    )
    _take_tasks(world.tasks, old, task_of)
    for name in (each for each in a.UNIT.names or () if each not in OF_GRAPH_UNIT):
        world.units[name][unit_of] = old.units[name]
    for records, name in ((world.workers, "task"), (world.queues, "root"), (world.sources, "task")):
        records[name] = _numbers(records[name], task_of)
    _rename_events(world, task_of, unit_of)
    return world, _await_inputs(world, edges)


def _numbers(numbers: Ints, new_of: Ints) -> Ints:
    """The new numbers of some, of which `NONE` stays."""
    found: Ints = np.where(numbers == a.NONE, a.NONE, new_of[np.maximum(numbers, 0)])
    return found


def _with(records: Records, name: str, new_of: Ints) -> Records:
    """Records with other numbers in a column; those that are not in use have any valid one."""
    found = records.copy()
    found[name] = new_of[np.clip(found[name], 0, len(new_of) - 1)]
    return found


def _take_tasks(tasks: Records, old: a.World, task_of: Ints) -> None:
    for name in (each for each in a.TASK.names or () if each not in (*OF_GRAPH, *OF_HEAP)):
        tasks[name][task_of] = old.tasks[name]
    for name in OF_HEAP:
        tasks[name][task_of] = _numbers(old.tasks[name], task_of)
    added = np.ones(len(tasks), np.bool_)
    added[task_of] = False
    tasks["next"][added] = old.core["fed"][0]


def _cells(old: a.World, tasks: int, task_of: Ints) -> Records:
    """The cells of all steps, with columns for new tasks, which have nothing to do."""
    cells = np.zeros((len(old.cells), tasks), a.CELL)
    cells["missing"], cells["ran_on"] = a.INACTIVE, a.NONE
    cells[:, task_of] = old.cells
    return cells


def _rename_events(world: a.World, task_of: Ints, unit_of: Ints) -> None:
    """Give moves on the agenda, and what flows carry, the new numbers of units and tasks."""
    rows = world.agenda_rows[: int(world.core["agenda"][0])]
    moves = rows[:, 1] == a.MOVED
    rows[moves, 2] = unit_of[rows[moves, 2]]
    flows = world.flows
    for what, name, new_of in ((a.INPUT, "second", task_of), (a.STATE, "first", unit_of)):
        carrying = flows["what"] == what
        flows[name][carrying] = new_of[np.clip(flows[name][carrying], 0, len(new_of) - 1)]


def _await_inputs(world: a.World, edges: Ints) -> Ints:
    """Count again what cells wait for, since other tasks may feed them now; returns those that wait for nothing."""
    core, number = world.core[0], len(world.tasks)
    cells = world.cells[: int(core["fed"] - core["base"])]
    feeds = np.zeros((number, number), np.int64)
    feeds[edges[:, 0], edges[:, 1]] = 1
    missing = (cells["missing"] >= 0) @ feeds
    for flow in _under_way(world):
        if flow["what"] == a.INPUT:
            missing[flow["first"] - core["base"], flow["second"]] += 1
    waiting = (cells["missing"] > 0) & (cells["implied"] == 0)
    cells["missing"][waiting] = np.maximum(1, missing[waiting])
    ready: Ints = np.argwhere(waiting & (missing == 0)).astype(np.int64)
    return ready


def _under_way(world: a.World) -> Sequence[np.void]:
    """The flows that have not arrived."""
    free, place = np.zeros(len(world.flows), np.bool_), int(world.core["free_flow"][0])
    while place != a.NONE:
        free[place] = True
        place = int(world.flows["free"][place])
    return list(world.flows[~free])
