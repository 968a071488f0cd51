"""Rebindings under way: which units go where, and what is reported when they are there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.model.control.binding import Binding, WorkerId
from shoal.model.control.messages import MoveReport, MovesFinished
from shoal.runtimes.simulated.engine.simulation import Simulation
from shoal.runtimes.simulated.input.task_plan import TaskPlan
from shoal.runtimes.simulated.workers import Workers

SUPERSEDED = "a newer rebinding superseded it"


@dataclass
class Rebinding:
    """One rebinding: the core that each unit still has to reach, and the reports of those that are there."""

    id: str
    left: dict[int, int]
    number_of: NDArray[np.int64]
    reports: list[MoveReport] = field(default_factory=list)

    @classmethod
    def begun(cls, id_: str, plan: TaskPlan, simulation: Simulation, binding: Binding, workers: Workers) -> "Rebinding":
        """Begin to move every unit that is not where the binding wants it."""
        wanted = [workers.cores[binding.worker_of[each]] for each in plan.instances if each in binding.worker_of]
        units = [unit for unit, each in enumerate(plan.instances) if each in binding.worker_of]
        for unit, core in zip(units, wanted, strict=True):
            simulation.move(unit, core)  # those that are there may be about to leave
        owners, on_way = simulation.owners(), simulation.on_way()
        pairs = zip(units, wanted, strict=True)
        left = {unit: core for unit, core in pairs if owners[unit] != core or on_way[unit]}
        return cls(id_, left, workers.number_of)

    def took(self, plan: TaskPlan, moves: Iterable[Mapping[str, float]]) -> None:
        """Note moves that have ended."""
        for move in moves:
            unit = int(move["unit"])
            if self.left.get(unit) == int(move["target"]):
                del self.left[unit]
                self.reports.append(self._report(plan, unit, move))

    def _report(self, plan: TaskPlan, unit: int, move: Mapping[str, float]) -> MoveReport:
        source, target = (WorkerId(max(0, int(self.number_of[int(move[name])]))) for name in ("source", "target"))
        return MoveReport(plan.instances[unit], source, target, int(move["bytes"]), frozen_s=float(move["frozen_s"]))

    def finished(self, at_s: float) -> MovesFinished | None:
        """The report once all moves have been made."""
        return None if self.left else MovesFinished(self.id, tuple(self.reports), at_s=at_s)

    def superseded(self, plan: TaskPlan, simulation: Simulation, at_s: float) -> MovesFinished:
        """The report of a rebinding that another one replaces."""
        owners = simulation.owners()
        for unit, core in self.left.items():
            source, target = (WorkerId(max(0, int(self.number_of[each]))) for each in (owners[unit], core))
            self.reports.append(MoveReport(plan.instances[unit], source, target, aborted=SUPERSEDED))
        return MovesFinished(self.id, tuple(self.reports), at_s=at_s)
