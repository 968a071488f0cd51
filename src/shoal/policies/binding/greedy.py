"""The policy `greedy` of the studies: instances leave overloaded workers one by one, the lightest first."""

from dataclasses import dataclass

import numpy as np

from shoal.model.control.binding import Binding
from shoal.model.control.topology import Topology
from shoal.policies.binding.loads import Loads, summed


@dataclass(frozen=True)
class Greedy:
    """Instances ascending by the time their backlog takes; from a worker above average to the least loaded one.

    Without any backlog, arrivals are used instead (`Loads.waiting_s`).

    The average is computed once, the loads of workers after every move. As in the study, instances without a backlog
    are moved as well, and one that is heavier than the difference raises the peak.
    """

    def propose(self, loads: Loads, binding: Binding, topology: Topology) -> Binding:
        """The binding after one round."""
        placed = loads.placed(binding, topology)
        weights = loads.waiting_s
        load = summed(weights, placed, topology.workers).tolist()
        average = sum(load) / len(load)
        target = placed.tolist()
        weight_of = weights.tolist()
        for place in np.argsort(weights, kind="stable").tolist():
            source = target[place]
            if load[source] > average:
                least = load.index(min(load))
                target[place] = least
                load[least] += weight_of[place]
                load[source] -= weight_of[place]
        return loads.bound(binding, np.array(target, dtype=np.int64))
