"""The policies `metis` and `dynamic-metis` of the study: the graph cut into as many parts as there are workers.

A vertex weighs the time its instance took in total, an edge the bytes that went over it. The study divides these by
the memory bandwidth; it is one constant for all edges, so METIS, which compares edges with edges alone, gives the
same parts without it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.topology import Topology
from shoal.policies.binding.loads import Floats, Ints, Loads, shared_out, summed

SEED = 1
_TOTAL = 2**30
"""METIS takes whole numbers, in some builds of 32 bits: weights are scaled to this sum."""


@dataclass(frozen=True)
class Metis:
    """Binds once, by the loads of a profile; for a run that began under `round-robin`."""

    def propose(self, loads: Loads, binding: Binding, topology: Topology) -> Binding:
        """Part k on worker k, regardless of the binding before."""
        loads.placed(binding, topology)
        return loads.bound(binding, parts(loads, topology.workers))


@dataclass(frozen=True)
class DynamicMetis:
    """Binds repeatedly, by the latest loads; a part goes to the worker that has most of it."""

    def propose(self, loads: Loads, binding: Binding, topology: Topology) -> Binding:
        """Every part on the worker it overlaps most with."""
        old = loads.placed(binding, topology)
        return loads.bound(binding, renamed(parts(loads, topology.workers), old, topology.workers))


def parts(loads: Loads, number: int) -> Ints:
    """The part of every instance: parts of about the same total time, with few bytes between them.

    An instance as heavy as a worker's share is a part by itself. METIS would do the same, but leave other parts
    empty and print a warning to standard output.
    """
    weights = loads.busy_s if loads.busy_s.any() else np.ones(len(loads.instances))
    heavy, _ = shared_out(weights, number)
    found = np.zeros(len(weights), dtype=np.int64)
    found[heavy] = np.arange(len(heavy))
    others = np.ones(len(weights), dtype=bool)
    others[heavy] = False
    found[others] = len(heavy) + _cut(loads, weights, others, number - len(heavy))
    return found


def required() -> Any:
    """The package pymetis; raises an error if it is not installed."""
    try:
        import pymetis
    except ImportError as error:
        raise ConfigError(
            "the policies metis and dynamic-metis need the package pymetis, which is not installed; "
            "pip install 'shoal[metis]'"
        ) from error
    return pymetis


def _cut(loads: Loads, weights: Floats, chosen: npt.NDArray[np.bool_], number: int) -> Ints:
    """The parts of the chosen instances, by METIS."""
    count = int(chosen.sum())
    if number == 1 or count <= number:
        return np.arange(count, dtype=np.int64) % number
    pymetis = required()
    starts, adjacent, edge_bytes = _adjacency(loads, chosen)
    cut = pymetis.part_graph(
        number,
        pymetis.CSRAdjacency(starts, adjacent),
        vweights=_whole(weights[chosen]),
        eweights=_whole(edge_bytes),
        recursive=False,
        options=pymetis.Options(seed=SEED),
    )
    return np.array(cut.vertex_part, dtype=np.int64)


def renamed(new: Ints, old: Ints, number: int) -> Ints:
    """New parts under old names: the pair with most instances in common first, each name given once.

    Parts that overlap with none of the free names get them in order. Of equal pairs the one with
    the lower new part, then the lower old one, is first.

    >>> renamed(np.array([1, 1, 2, 0, 0, 0]), np.array([0, 0, 1, 2, 2, 2]), number=3)
    array([0, 0, 1, 2, 2, 2])
    """
    overlap = np.bincount(new * number + old, minlength=number * number)
    name_of: dict[int, int] = {}
    taken: set[int] = set()
    for pair in np.argsort(-overlap, kind="stable").tolist():
        part, name = divmod(pair, number)
        if overlap[pair] and part not in name_of and name not in taken:
            name_of[part] = name
            taken.add(name)
    free = iter(sorted(set(range(number)) - taken))
    names = [name_of[part] if part in name_of else next(free) for part in range(number)]
    return np.array(names, dtype=np.int64)[new]


def _adjacency(loads: Loads, chosen: npt.NDArray[np.bool_]) -> tuple[Ints, Ints, Floats]:
    """Every edge in both directions, once: where each vertex's neighbours start, the neighbours, the bytes."""
    count, vertex_of = int(chosen.sum()), np.cumsum(chosen) - 1
    inside = chosen[loads.edge_source] & chosen[loads.edge_target]
    source, target = vertex_of[loads.edge_source[inside]], vertex_of[loads.edge_target[inside]]
    pairs, inverse = np.unique(source * count + target, return_inverse=True)
    total = summed(loads.edge_bytes[inside], inverse, len(pairs))
    one, other = np.divmod(pairs, count)
    vertex, neighbour = np.concatenate([one, other]), np.concatenate([other, one])
    order = np.lexsort((neighbour, vertex))
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(vertex, minlength=count), out=starts[1:])
    return starts, neighbour[order], np.concatenate([total, total])[order]


def _whole(weights: Floats) -> Ints:
    """Weights as whole numbers in proportion, from 1."""
    total = weights.sum() or 1.0
    return np.maximum(np.rint(weights / total * _TOTAL).astype(np.int64), 1)
