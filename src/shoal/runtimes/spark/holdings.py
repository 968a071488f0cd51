"""Holdings: the state of the instances that are bound to a worker, taken from the segments it lies in."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.kernels.table import Tables
from shoal.model.graph import InstanceId
from shoal.query.program import Program
from shoal.runtimes.spark.checkpoint import Plan
from shoal.runtimes.spark.segment import chosen
from shoal.runtimes.spark.store import StateStore

MOVED = -(1 << 60)
"""Epoch of state that another worker wrote: always old enough to be written anew here."""


@dataclass(frozen=True)
class Holdings:
    """State tables per lane, and the epoch each instance's state was written in (never, if another worker wrote it).

    `foreign_bytes`: how much of it other workers had written.
    """

    tables: Mapping[int, Tables] = field(default_factory=dict)
    origins: Mapping[InstanceId, int] = field(default_factory=dict)
    foreign_bytes: int = 0


def bound(program: Program, binding: tuple[int, ...], worker: int, depth: int) -> dict[InstanceId, tuple[int, int]]:
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
    found: dict[int, list[Tables]] = defaultdict(list)
    origins: dict[InstanceId, int] = {}
    foreign = 0
    for ref in plan.states:
        if worker not in ref.workers:
            continue
        current = None if ref.instances is None else set(ref.instances)
        epoch, writer = (int(text) for text in ref.segment.split("-")[:2])
        for part in store.read(ref.segment):
            wanted: dict[int, dict[InstanceId, int]] = defaultdict(dict)
            for instance in part.instances:
                if instance in mine and (current is None or instance in current):
                    lane, number = mine[instance]
                    wanted[lane][instance] = number
                    origins[instance] = epoch if writer == worker else MOVED
            for lane, numbers in wanted.items():
                table = chosen(part, numbers)
                found[lane].append({part.table: table})
                foreign += table.nbytes if writer != worker else 0
    tables = {lane: together(program, lane, parts) for lane, parts in found.items()}
    return Holdings(tables, origins, foreign)


def together(program: Program, lane: int, tables: list[Tables]) -> Tables:
    """Tables of one lane one under another."""
    kernel = program.lanes[lane].kernel
    return kernel.together(tables) if kernel and tables else {}
