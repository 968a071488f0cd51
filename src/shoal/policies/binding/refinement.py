"""Refinement of partitions: the costliest path of each is one sub-partition, the rest splits into components."""

from shoal.policies.binding.loads import Ints, Loads


def refined(loads: Loads) -> list[list[int]]:
    """The sub-partitions, as places, partition after partition and the costliest path of each first.

    The cost of a path is that of one event at each of its instances; edges between partitions do not count.
    """
    count = len(loads.instances)
    partition = loads.partition.tolist()
    downstream: list[list[int]] = [[] for _ in range(count)]
    upstream: list[list[int]] = [[] for _ in range(count)]
    for source, target in zip(loads.edge_source.tolist(), loads.edge_target.tolist(), strict=True):
        if partition[source] == partition[target]:
            downstream[source].append(target)
            upstream[target].append(source)
    downstream_s, next_ = _downstream(loads.cost_s.tolist(), downstream)
    sub_partitions = []
    left = [True] * count
    for members in grouped(loads.partition):
        path = [max(members, key=lambda place: (downstream_s[place], -place))]
        while (following := next_[path[-1]]) is not None:
            path.append(following)
        sub_partitions.append(path)
        for place in path:
            left[place] = False
        sub_partitions += [_component(place, left, downstream, upstream) for place in members if left[place]]
    return sub_partitions


def grouped(numbers: Ints) -> list[list[int]]:
    """The places of each number, ascending."""
    groups: list[list[int]] = [[] for _ in range(int(numbers.max()) + 1 if numbers.size else 0)]
    for place, number in enumerate(numbers.tolist()):
        groups[number].append(place)
    return groups


def _downstream(cost_s: list[float], downstream: list[list[int]]) -> tuple[list[float], list[int | None]]:
    """For every place the cost of the costliest path that starts there, and the next place on it."""
    downstream_s = list(cost_s)
    next_: list[int | None] = [None] * len(cost_s)
    for place in reversed(range(len(cost_s))):
        if downstream[place]:
            best = max(downstream[place], key=lambda after: (downstream_s[after], -after))
            next_[place] = best
            downstream_s[place] += downstream_s[best]
    return downstream_s, next_


def _component(start: int, left: list[bool], downstream: list[list[int]], upstream: list[list[int]]) -> list[int]:
    """Take all remaining places that are connected to one, in either direction."""
    found, todo = [], [start]
    left[start] = False
    while todo:
        place = todo.pop()
        found.append(place)
        for neighbour in (*downstream[place], *upstream[place]):
            if left[neighbour]:
                left[neighbour] = False
                todo.append(neighbour)
    return sorted(found)
