"""Cut tasks: what becomes of the tasks and units of a run when rectangles are cut while it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.model.control.messages import Command, Repartition
from shoal.model.control.partitioning import Cut
from shoal.model.query.graph import InstanceId
from shoal.runtimes.simulated.input.task_plan import TaskPlan

Ints = NDArray[np.int64]


def only_cuts(command: Command) -> bool:
    """Whether a command adds instances and removes none, so that those that are there can go on."""
    return isinstance(command, Repartition) and all(isinstance(change, Cut) for change in command.changes)


@dataclass(frozen=True, eq=False)
class CutTasks:
    """The numbers of tasks and units before and after; `heirs`: the instances that have the keys of one that was cut.

    All instances from before are there afterwards, and so are all streams and lanes, by the same numbers.
    """

    before: TaskPlan
    after: TaskPlan
    heirs: Mapping[InstanceId, tuple[InstanceId, ...]]

    @cached_property
    def task_of(self) -> Ints:
        """The number afterwards of every task from before."""
        found: Ints = np.arange(self.before.number, dtype=np.int64)
        for lane in self.before.lanes:
            first = self.before.first[lane.number]
            if lane.kernel is None:
                found[first] = self.after.first[lane.number]
            else:
                found[self.before.places(lane)] = [self.after.task_of[instance] for instance in lane.instances]
        found[self.before.feed_tasks] = self.after.feed_tasks
        return found

    @cached_property
    def unit_of(self) -> Ints:
        """The number afterwards of every unit from before."""
        found: Ints = np.empty(int(self.before.unit.max()) + 1, np.int64)
        found[self.before.unit] = self.after.unit[self.task_of]
        return found

    def owners(self, before: Ints) -> Ints:
        """The core of every unit, by those from before: a new instance begins where the one is that it was cut from."""
        owners: Ints = np.full(int(self.after.unit.max()) + 1, -1, np.int64)
        owners[self.unit_of] = before
        unit_of = {instance: unit for unit, instance in enumerate(self.after.instances)}
        for parent, several in self.heirs.items():
            for heir in several:
                if heir not in self.before.task_of:
                    owners[unit_of[heir]] = owners[unit_of[parent]]
        return owners
