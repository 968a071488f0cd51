"""Load columns: the loads of many instances in columns, so that reading all of them is fast."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shoal.model.control.snapshot import InstanceLoad
from shoal.model.query.graph import InstanceId

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_IDLE = InstanceLoad(0, 0.0, 0, 0)


@dataclass(frozen=True, eq=False)
class LoadColumns(Mapping[InstanceId, InstanceLoad]):
    """A load for every instance, in columns.

    >>> a, b = InstanceId("a/0"), InstanceId("b/0")
    >>> loads = LoadColumns.of((a, b), {b: InstanceLoad(3, 0.5, 1, 100, backlog=2)})
    >>> loads.events, loads[b].backlog
    (array([0, 3]), 2)
    """

    instances: tuple[InstanceId, ...]
    events: Ints
    cost_s: Floats
    results: Ints
    state_bytes: Ints
    backlog: Ints

    @classmethod
    def of(cls, instances: tuple[InstanceId, ...], loads: Mapping[InstanceId, InstanceLoad]) -> "LoadColumns":
        """Loads in the order of these instances; an instance without a load was idle."""
        if isinstance(loads, cls) and loads.instances == instances:
            return loads
        found = [loads.get(instance, _IDLE) for instance in instances]
        return cls(
            instances,
            np.array([load.events for load in found], np.int64),
            np.array([load.cost_s for load in found], np.float64),
            np.array([load.results for load in found], np.int64),
            np.array([load.state_bytes for load in found], np.int64),
            np.array([load.backlog for load in found], np.int64),
        )

    @classmethod
    def merged(cls, several: Sequence[Mapping[InstanceId, InstanceLoad]]) -> "LoadColumns":
        """Loads of successive periods as one: counts are summed, state and backlog are the newest.

        An instance without a load in the newest period has no backlog; its state size is the last one reported.
        """
        columns = [one for one in several if isinstance(one, cls)]
        if len(columns) == len(several) and all(one.instances is columns[0].instances for one in columns):
            state_bytes = columns[-1].state_bytes
        else:
            last = {instance: load.state_bytes for one in several for instance, load in one.items()}
            columns = [cls.of(tuple(last), one) for one in several]
            state_bytes = np.array(list(last.values()), np.int64)
        return cls(
            columns[0].instances,
            np.sum([one.events for one in columns], axis=0),
            np.sum([one.cost_s for one in columns], axis=0),
            np.sum([one.results for one in columns], axis=0),
            state_bytes,
            columns[-1].backlog,
        )

    @cached_property
    def _position_of(self) -> dict[InstanceId, int]:
        return {instance: position for position, instance in enumerate(self.instances)}

    def __getitem__(self, instance: InstanceId) -> InstanceLoad:
        """The load of one instance."""
        position = self._position_of[instance]
        return InstanceLoad(
            int(self.events[position]),
            float(self.cost_s[position]),
            int(self.results[position]),
            int(self.state_bytes[position]),
            int(self.backlog[position]),
        )

    def __iter__(self) -> Iterator[InstanceId]:
        """All instances, in order."""
        return iter(self.instances)

    def __len__(self) -> int:
        """Number of instances."""
        return len(self.instances)
