"""Holdings: the state of the instances that are bound to a worker, taken from the segments it lies in."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.kernels.table import Table, Tables
from shoal.model.graph import InstanceId
from shoal.query.program import Program
from shoal.runtimes.spark.checkpoint import Plan, StateRef
from shoal.runtimes.spark.segment import chosen
from shoal.runtimes.spark.store import StateStore

MOVED = -(1 << 60)
"""Epoch of state that another worker wrote: always old enough to be written anew here."""


@dataclass(frozen=True)
class Holdings:
    """State tables per lane, and the epoch each instance's state was written in (never, if for another worker).

    `moved_bytes`: how much of it belongs to instances that another worker had in the epoch before; `late_bytes`: how
    much of that had to be fetched now.
    """

    tables: Mapping[int, Tables] = field(default_factory=dict)
    origins: Mapping[InstanceId, int] = field(default_factory=dict)
    moved_bytes: int = 0
    late_bytes: int = 0

    @property
    def nbytes(self) -> int:
        """How much it is in all."""
        return sum(table.nbytes for tables in self.tables.values() for table in tables.values())


def bound(program: Program, binding: Sequence[int], worker: int, depth: int) -> dict[InstanceId, tuple[int, int]]:
    """The lane and number of every instance of a round that is bound to a worker."""
    return {
        instance: (lane.number, number)
        for lane in program.lanes
        if lane.kernel and lane.depth == depth
        for number, instance in enumerate(lane.instances)
        if binding[program.first_instances[lane.number] + number] == worker
    }


def loaded(program: Program, plan: Plan, worker: int, depth: int, store: StateStore) -> Holdings:
    """What a worker holds at the beginning of a round."""
    mine = bound(program, plan.binding, worker, depth)
    arrived = {program.instances[place] for place in plan.arrived}
    found: dict[int, list[Tables]] = defaultdict(list)
    origins: dict[InstanceId, int] = {}
    moved = late = 0
    for ref in plan.states:
        if worker not in ref.workers:
            continue
        is_near = store.is_near(ref.segment)
        current = None if ref.instances is None else set(ref.instances)
        epoch, owner = (int(text) for text in ref.segment.split("-")[:2])
        for part in store.read(ref.segment):
            wanted: dict[int, dict[InstanceId, int]] = defaultdict(dict)
            for instance in part.instances:
                if instance in mine and (current is None or instance in current):
                    lane, number = mine[instance]
                    wanted[lane][instance] = number
                    origins[instance] = epoch if owner == worker else MOVED
            for lane, numbers in wanted.items():
                table = chosen(part, numbers)
                found[lane].append({part.table: table})
                size = _bytes_of(table, [number for instance, number in numbers.items() if instance in arrived])
                moved += size
                late += 0 if is_near else size
    tables = {lane: together(program, lane, parts) for lane, parts in found.items()}
    return Holdings(tables, origins, moved, late)


def ahead(plan: Plan, worker: int) -> list[StateRef]:
    """The segments to read now for what a worker will have next.

    What was written in the epoch before is left out: it belongs to busy instances, which are about to be written again.
    """
    rested = [ref for ref in plan.states if int(ref.segment.split("-")[0]) < plan.epoch - 1]
    return [ref for ref in rested if worker in ref.coming]


def together(program: Program, lane: int, tables: list[Tables]) -> Tables:
    """Tables of one lane one under another."""
    kernel = program.lanes[lane].kernel
    return kernel.together(tables) if kernel and tables else {}


def _bytes_of(table: Table, numbers: list[int]) -> int:
    """Size of some instances' rows."""
    rows = int(np.isin(table.instance, numbers).sum()) if numbers else 0
    return table.nbytes * rows // max(1, len(table))
