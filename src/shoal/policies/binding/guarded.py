"""The policy `guarded`, ours: makes moves that pay for themselves, and keeps a binding that is good enough."""

from dataclasses import dataclass

import numpy as np

from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.costs import LinkCosts
from shoal.model.control.topology import Topology
from shoal.policies.binding.loads import Floats, Ints, Loads, shared_out, summed

_MARGIN = 1e-9
"""Share of all work that is ignored; sums in another order differ by less."""
_LIGHTER = 1e-6
"""Weight of work among moves that save the same: the one of less work is better."""


@dataclass(frozen=True)
class Guarded:
    """Moves instances, alone or with their partition, from workers with too much work until the horizon.

    1. The work of a worker is the time that its backlog and its arrivals take until the horizon.
    2. The level is the work of every worker if work were spread evenly, instances too heavy for that set aside.
    3. The binding is kept while no worker exceeds the level, or its heaviest instance, by more than `slack`.
    4. Otherwise moves are made that save more overtime than they cost, the one that saves most first. Overtime is work
       more than `aim` above the level. The cost is the time of the move by the costs of the loads and, for instances
       that leave the node of the rest of their partition, `remote` times the work that is then done apart.

    The target of a move always ends below the source's work before it, so the peak never rises. Every move lowers
    overtime and remote work by more than its cost. So the policy is stable: asked again with the same loads after its
    proposal was applied, it proposes nothing, unless a detour over another node is faster than the direct link.
    """

    horizon_s: float = 10.0
    slack: float = 0.02
    aim: float = 0.002
    remote: float = 0.25

    def __post_init__(self) -> None:
        """Reject a horizon that is not positive, and negative shares."""
        if not self.horizon_s > 0:
            raise ConfigError(f"horizon_s of the policy guarded must be more than 0; got {self.horizon_s}")
        for name in ("slack", "aim", "remote"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} of the policy guarded must be 0 or more; got {getattr(self, name)}")

    def propose(self, loads: Loads, binding: Binding, topology: Topology) -> Binding:
        """The binding once no further move pays for itself."""
        search = _Search(self, loads, binding, topology)
        while search.unbalanced() and search.round():
            pass
        return search.binding() if search.moved else binding


def _charged(costs: LinkCosts, nodes: int) -> Floats:
    """Seconds per byte that a move is charged, by the node where the state was first, where it is now, and its target.

    The search may move an instance several times; the real move then goes directly. A move is charged the cost of its
    link, or the increase of the direct cost if that is more. So the charges add up to at least the real cost, even if
    a detour over a third node is faster than the direct link.
    """
    byte_s = np.array([[1 / costs.bandwidth((here, there)) for there in range(nodes)] for here in range(nodes)])
    charged: Floats = np.maximum(byte_s[None, :, :], byte_s[:, None, :] - byte_s[:, :, None])
    return charged


class _Search:
    """The search for a binding: the worker of every instance, and the work of every worker and partition.

    Columns are sorted by partition.
    """

    def __init__(self, policy: Guarded, loads: Loads, binding: Binding, topology: Topology) -> None:
        self._loads, self._binding, self._topology = loads, binding, topology
        self._order = np.argsort(loads.partition, kind="stable")
        self._placed = loads.placed(binding, topology)[self._order]
        self._partition = loads.partition[self._order]
        self._work_s = loads.work_s(policy.horizon_s)[self._order]
        self._state_bytes = loads.state_bytes[self._order]
        self._byte_s = _charged(loads.costs, topology.nodes)
        level_s = shared_out(self._work_s, topology.workers)[1]
        self._level_s, self._slack_s, self._goal_s = level_s, level_s * policy.slack, level_s * (1 + policy.aim)
        self._margin_s = float(self._work_s.sum()) * _MARGIN
        self._node_of = np.array(topology.node_of)
        self._origin = self._node_of[self._placed]
        sizes = np.bincount(self._partition)
        self._apart = np.where(sizes > 1, policy.remote / np.maximum(sizes - 1, 1), 0.0)
        self.moved = False

    def binding(self) -> Binding:
        """The binding found so far."""
        placed = np.empty_like(self._placed)
        placed[self._order] = self._placed
        return self._loads.bound(self._binding, placed)

    def unbalanced(self) -> bool:
        """Whether some worker has too much work that it could give away.

        Sums are computed again, without accumulated rounding errors, so that a stable binding is found stable when the
        policy is asked again.
        """
        nodes, partitions = self._topology.nodes, len(self._apart)
        load_s = summed(self._work_s, self._placed, self._topology.workers)
        cell, cells = self._partition * nodes + self._node_of[self._placed], partitions * nodes
        self._load_s = load_s.tolist()
        self._count_at = np.bincount(cell, minlength=cells).reshape(partitions, nodes)
        self._work_at_s = summed(self._work_s, cell, cells).reshape(partitions, nodes)
        unavoidable_s = np.full(len(load_s), self._level_s)
        np.maximum.at(unavoidable_s, self._placed, self._work_s)
        return bool((load_s - unavoidable_s).max() > self._slack_s + self._margin_s)

    def round(self) -> bool:
        """Relieve every worker that has too much work, the busiest first; returns whether an instance was moved."""
        moved = False
        for worker in sorted(range(self._topology.workers), key=lambda worker: -self._load_s[worker]):
            while self._load_s[worker] > self._goal_s and self._relieve(worker):
                moved = True
        self.moved |= moved
        return moved

    def _relieve(self, worker: int) -> bool:
        """Make the best move away from a worker, and next best ones that it does not change; False if none pays.

        A move of no more than the overtime of the worker and the room of its target does not change the value of moves
        of other partitions. So the next best of them can be made without another search.
        """
        members = np.flatnonzero(self._placed == worker)
        if len(members) == 1:
            return False
        first, number, work_s, cost_s = self._units(members, self._node_of[worker])
        partition = self._partition[members[first]]
        net_s = self._saved_s(worker, work_s) - cost_s - self._lost_s(worker, partition, number, work_s)
        nodes = net_s.argmax(axis=1)
        best_s = net_s.max(axis=1)
        paying = np.flatnonzero(best_s > self._margin_s)
        touched: set[int] = set()
        for unit in paying[np.argsort(work_s[paying] * _LIGHTER - best_s[paying], kind="stable")].tolist():
            if partition[unit] in touched:
                continue
            target = self._least(int(nodes[unit]))
            fits = work_s[unit] <= min(self._load_s[worker] - self._goal_s, self._goal_s - self._load_s[target])
            if fits or not touched:
                self._move(members[first[unit] : first[unit] + number[unit]], worker, target)
                touched.add(int(partition[unit]))
            if not fits:
                break
        return bool(touched)

    def _least(self, node: int) -> int:
        """The worker of a node with the least work."""
        return min(self._topology.workers_of[node], key=self._load_s.__getitem__)

    def _units(self, members: Ints, node: int) -> tuple[Ints, Ints, Floats, Floats]:
        """The units that can be moved: every instance alone, and all members of one partition as one.

        Returns for each unit its first member, their number, their work and the cost to move them to each node.
        """
        partition, work_s = self._partition[members], self._work_s[members]
        copying_s = self._state_bytes[members, None] * self._byte_s[self._origin[members], node]
        cost_s = self._loads.costs.hand_over_s + copying_s
        alone = np.arange(len(members))
        starts = np.concatenate([alone[:1], alone[1:][partition[1:] != partition[:-1]]])
        sizes = np.concatenate([starts[1:], [len(members)]]) - starts
        several = np.flatnonzero(sizes > 1)
        if not len(several):
            return alone, np.ones_like(alone), work_s, cost_s
        return (
            np.concatenate([alone, starts[several]]),
            np.concatenate([np.ones_like(alone), sizes[several]]),
            np.concatenate([work_s, np.add.reduceat(work_s, starts)[several]]),
            np.concatenate([cost_s, np.add.reduceat(cost_s, starts)[several]]),
        )

    def _saved_s(self, worker: int, work_s: Floats) -> Floats:
        """The overtime saved by each unit on each node; -inf if the target would get as much as the source."""
        room_s = np.array([self._goal_s - self._load_s[self._least(node)] for node in range(self._topology.nodes)])
        over_s = self._load_s[worker] - self._goal_s
        taken_s, rest_s = np.minimum(work_s, over_s), work_s[:, None] - room_s
        saved_s = taken_s[:, None] - np.maximum(rest_s, 0.0) + np.maximum(-room_s, 0.0)
        saved_s[rest_s >= over_s - self._margin_s] = -np.inf
        return saved_s

    def _lost_s(self, worker: int, partition: Ints, number: Ints, work_s: Floats) -> Floats:
        """The additional work done apart from its partition, for each unit on each node."""
        node = self._node_of[worker]
        count, work_at_s = self._count_at[partition], self._work_at_s[partition]
        stay, stay_s = count[:, node] - number, work_at_s[:, node] - work_s
        lost_s = work_s[:, None] * (stay[:, None] - count) + number[:, None] * (stay_s[:, None] - work_at_s)
        lost_s[:, node] = 0.0
        return lost_s * self._apart[partition][:, None]

    def _move(self, places: Ints, source: int, target: int) -> None:
        work_s = float(self._work_s[places].sum())
        self._placed[places] = target
        self._load_s[source] -= work_s
        self._load_s[target] += work_s
        partition, here, there = self._partition[places[0]], self._node_of[source], self._node_of[target]
        for table, amount in ((self._count_at, len(places)), (self._work_at_s, work_s)):
            table[partition, here] -= amount
            table[partition, there] += amount
