"""The report of state that was shed: exactly what was lost, and how far results can be off."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import MechanismError
from shoal.kernels.columns.block import Column, take
from shoal.kernels.columns.parts import split_tables
from shoal.kernels.columns.table import Tables
from shoal.kernels.error_bounds import ErrorBounds
from shoal.kernels.kernel import Kernel
from shoal.model.control.fragment import Fragments

NAMED_KEYS = 10
"""Lost keys that a report names; it counts all."""
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Shed:
    """What a query has lost, of how much, and the bounds on the error of its results.

    `rows`: the input rows in the lost state. `named_keys`: some of the `keys` that lost state, at most 10;
    a key that is constant within every instance has no columns.
    """

    query: str
    instances: tuple[int, ...]
    fragments: int
    of_fragments: int
    rows: int
    state_bytes: int
    of_state_bytes: int
    utility: float
    of_utility: float
    keys: int
    named_keys: tuple[Key, ...]
    bounds: ErrorBounds

    @property
    def utility_kept(self) -> float:
        """The share of the utility that was not lost; 1 if there was none."""
        return 1 - self.utility / self.of_utility if self.of_utility else 1.0

    @property
    def text(self) -> str:
        """The report in words."""
        lost = (
            f"query {self.query!r} lost {self.fragments:,} of {self.of_fragments:,} fragments: "
            f"{self.rows:,} rows of {self.keys:,} keys, {self.state_bytes:,} of {self.of_state_bytes:,} bytes, "
            f"{1 - self.utility_kept:.1%} of the utility"
        )
        return "; ".join([lost, *self._bounds()])

    def _bounds(self) -> list[str]:
        most = self.bounds.results.most
        if most is None:
            return [f"results that are missing or different have no bound: {self.bounds.results.reason}"]
        off = [
            f"{name} by {each.most:,.6g}" if each.most is not None else f"{name} without bound, because {each.reason}"
            for name, each in self.bounds.columns.items()
        ]
        results = f"at most {most:,.0f} results are missing or different"
        return [results, *([f"values are off by at most: {', '.join(off)}"] if off else [])]


def shed_reports(
    kernel: Kernel, fragments: Fragments, arrived: NDArray[np.bool_], lost: Tables, queries: Sequence[str]
) -> tuple[Shed, ...]:
    """What each query has lost, without those that lost nothing.

    `fragments`: all that was to be moved. `arrived`: which of them was. `lost`: the tables of the others, as the kernel
    has extracted them. `queries`: the query of every instance number.
    """
    names = list(dict.fromkeys(queries))
    query_of = np.array([names.index(name) for name in queries], np.int64)
    if len(fragments) and int(fragments.instance.max()) >= len(queries):
        raise MechanismError(
            f"fragment of instance number {int(fragments.instance.max())} has no query; got {len(queries)} instances"
        )
    parts = split_tables(lost, query_of, len(names))
    of_query = query_of[fragments.instance]
    reports = [_shed(kernel, name, fragments, of_query == n, ~arrived, parts[n]) for n, name in enumerate(names)]
    return tuple(each for each in reports if each.fragments)


def _shed(
    kernel: Kernel,
    query: str,
    fragments: Fragments,
    ours: NDArray[np.bool_],
    gone: NDArray[np.bool_],
    lost: Tables,
) -> Shed:
    every, shed = fragments.where(ours), fragments.where(ours & gone)
    keys, named = _keys(kernel, lost)
    return Shed(
        query,
        tuple(np.unique(shed.instance).tolist()),
        len(shed),
        len(every),
        sum(kernel.input_rows(number, table) for number, table in lost.items()),
        int(shed.state_bytes.sum()),
        int(every.state_bytes.sum()),
        float(shed.utility.sum()),
        float(every.utility.sum()),
        keys,
        named,
        kernel.error_bounds(lost),
    )


def _keys(kernel: Kernel, lost: Tables) -> tuple[int, tuple[Key, ...]]:
    """The number of keys that lost state, and the values of some, in the order of their ids."""
    found: dict[int, Key] = {}
    total = np.zeros(0, np.uint64)
    for number, table in sorted(lost.items()):
        columns = kernel.table_keys(number, table)
        ids, rows = np.unique(kernel.state_keys(number, table), return_index=True)
        total = np.union1d(total, ids)
        values = zip(*(_listed(take(column, rows[:NAMED_KEYS])) for column in columns), strict=True)
        found |= dict(zip(ids[:NAMED_KEYS].tolist(), values if columns else [()] * NAMED_KEYS, strict=False))
    return int(total.size), tuple(found[id_] for id_ in sorted(found)[:NAMED_KEYS])


def _listed(column: Column) -> list[Any]:
    """The values of a column, None for null."""
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
    return values
