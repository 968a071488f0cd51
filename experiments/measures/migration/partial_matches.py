"""Partial matches of `bikes` and `buses`, and what is left of them when a link dies."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.build import kernel_of
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import FOREVER_US, State
from shoal.kernels.worth import NOTHING_LEARNED
from shoal.mechanisms.shedding.capacity import TransferLink, capacity_bytes
from shoal.mechanisms.shedding.selection import Selection
from shoal.model.control.fragment import Fragments
from shoal.model.query.graph import Query
from shoal.workloads.bikes.events import BikesEvents
from shoal.workloads.buses.events import BusesEvents
from shoal.workloads.patterns.queries import delays, returns

Floats = NDArray[np.float64]
Name = Literal["bikes", "even_bikes", "operators", "vehicles"]
ROWS_PER_BLOCK = 20_000
WHOLE_S = 11.0
"""Time of a transfer of all state, which the study does not give: a bit over 10 s, since 2 s are less than a fifth."""
SEGMENT_BYTES, OVERHEAD_BYTES = 536, 54
SEED = 1


@dataclass(frozen=True)
class PatternTrial:
    """A query: its events before the migration, and those after it.

    `uneven`: the column by which events are thinned out, such that a value keeps a share of its events between 0 and 1.
    """

    query: Query
    events: Any
    before: int
    after: int
    uneven: str = ""


TRIALS: dict[Name, PatternTrial] = {
    "bikes": PatternTrial(returns(1), BikesEvents(bikes=8_700, per_day=139_200), 209_000, 139_200, "bikeid"),
    "even_bikes": PatternTrial(returns(1), BikesEvents(bikes=8_300, per_day=66_400), 100_000, 66_400),
    "operators": PatternTrial(delays(1)[0], BusesEvents(), 200_000, 20_000),
    "vehicles": PatternTrial(delays(1)[1], BusesEvents(), 200_000, 200_000),
}


@cache
def kernel(name: Name) -> Any:
    """The kernel of a query."""
    (operator,) = (each for each in TRIALS[name].query.operators if each.kind == "match")
    return kernel_of(operator, None, "", by_instance=True)


def block(name: Name, start: int, stop: int) -> Block:
    """Some events, all of one instance."""
    trial = TRIALS[name]
    made = Block.from_arrow(trial.events.batch(start, stop))
    if trial.uneven:
        share = uniform(made.columns[trial.uneven])
        made = made.where(uniform(np.arange(start, stop) + (1 << 40)) < share)
    return Block({**made.columns, INSTANCE: np.zeros(made.length, np.int64)}, made.length)


def uniform(numbers: NDArray[np.int64]) -> Floats:
    """A number between 0 and 1 for every number, the same every time."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed ^ (mixed >> np.uint64(31))) / 2.0**64


def processed(name: Name, state: State, start: int, stop: int) -> list[Block]:
    """Process events, and return the matches; all rows before the last one are decided."""
    found = []
    for begin in range(start, stop, ROWS_PER_BLOCK):
        rows = block(name, begin, min(begin + ROWS_PER_BLOCK, stop))
        kernel(name).process(state, rows)
        found.append(kernel(name).close_until(state, int(rows.columns["ts"][-1])))
    return found


def state_of(name: Name) -> State:
    """The state at the time of the migration."""
    state: State = kernel(name).open()
    processed(name, state, 0, TRIALS[name].before)
    return state


@cache
def fragments_of(name: Name) -> Fragments:
    """The partial matches at the time of the migration, with learned utilities."""
    learned = kernel(name).learn(NOTHING_LEARNED, 0, block(name, 0, TRIALS[name].before))
    found: Fragments = kernel(name).fragments(state_of(name), learned)
    return found.where(found.table == 1)


def skewed(fragments: int, above: int | None) -> Floats:
    """Random utilities from 0 to 100; those above a number, if given, are ten times as large."""
    utility = np.random.default_rng(SEED).random(fragments) * 100
    return utility if above is None else np.where(utility > above, utility * 10, utility)


def growing(sizes: NDArray[np.int64], power: float = 0.8) -> Floats:
    """Utilities that grow with the size, but less than in proportion."""
    return sizes.astype(np.float64) ** power


def link_for(state_bytes: int) -> TransferLink:
    """A link over which this much state takes `WHOLE_S`."""
    segments = -(-state_bytes // SEGMENT_BYTES)
    bytes_per_s = segments * (SEGMENT_BYTES + OVERHEAD_BYTES) / WHOLE_S * (1 + 1e-9)
    return TransferLink(bytes_per_s, segment_bytes=SEGMENT_BYTES, overhead_bytes=OVERHEAD_BYTES)


def kept(selection: Selection, utility: Floats, sizes: NDArray[np.int64], times_s: Sequence[float]) -> Floats:
    """The share of the utility that has arrived if the link dies after each time, which is known in advance."""
    return np.array([utility[arrived(selection, utility, sizes, at)].sum() for at in times_s]) / utility.sum()


def arrived(
    selection: Selection, utility: Floats, sizes: NDArray[np.int64], disconnected_s: float
) -> NDArray[np.bool_]:
    """The fragments that have arrived when the link dies."""
    capacity = capacity_bytes([link_for(int(sizes.sum()))], disconnected_s)
    return selection.choose(utility, sizes, capacity).arrived(sizes, capacity)


def results_kept(name: Name, survivors: NDArray[np.bool_]) -> float:
    """Of the matches that began before the migration, the share that is found with the partial matches that arrived."""
    wanted, got = (_matches(name, mask) for mask in (np.ones(survivors.size, bool), survivors))
    without = _matches(name, np.zeros(survivors.size, bool))
    depending = wanted - without
    return (depending & got).total() / depending.total()


def _matches(name: Name, survivors: NDArray[np.bool_]) -> Counter[str]:
    """The matches after the migration, with only some partial matches."""
    trial, state = TRIALS[name], state_of(name)
    kernel(name).extract(state, fragments_of(name).ids[~survivors])
    results = processed(name, state, trial.before, trial.before + trial.after)
    results.append(kernel(name).close_until(state, FOREVER_US))
    found: Counter[str] = Counter()
    for each in results:
        columns = [c.tolist() if isinstance(c, np.ndarray) else c.to_pylist() for c in each.columns.values()]
        found.update(map(str, zip(*columns, strict=True)))
    return found
