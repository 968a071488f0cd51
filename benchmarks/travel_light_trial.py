"""Trials of `travel_light.py`: partial matches of `bikes` and `buses`, and what is left of them when a link dies."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.compiler.build import kernel_of
from shoal.connectors.sources.generator import Generator
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import FOREVER_US, State
from shoal.kernels.worth import NOTHING_LEARNED
from shoal.mechanisms.shedding.capacity import TransferLink, capacity_bytes
from shoal.mechanisms.shedding.selection import Selection
from shoal.model.control.binding import Binding
from shoal.model.control.fragment import Fragments
from shoal.model.control.messages import EpochCommitted, MoveReport
from shoal.model.query.functions import Function, udf
from shoal.model.query.graph import Query
from shoal.session.job import Job
from shoal.session.run import Run, start
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
MOVED_S = 1.0
"""When the instance is asked to leave its host; the events of the trial before the migration come until then."""
STEP_S = "0.005"
"""Events come in steps; the choice is made at the request, and the source stops at the end of a step.

A step has a 200th of all events, which come in hours. Much longer ones change the state after the choice.
"""
MACHINE = """\
hosts: [{{name: old, cores: 1}}, {{name: new, cores: 1}}]
links: [{{from: old, to: new, bandwidth: {kbit:.3f}kbit, segment_bytes: {segment}, overhead_bytes: {overhead}}}]
"""
KEYS: dict[Name, str] = {
    "bikes": "bikeid",
    "even_bikes": "bikeid",
    "operators": "operator",
    "vehicles": "vehicle_id",
}
MORE = 20
"""A twentieth of the events comes after the request, so that the run does not end with it."""


@dataclass(frozen=True)
class Trial:
    """A query: its events before the migration, and those after it.

    `uneven`: the column by which events are thinned out, such that a value keeps a share of its events between 0 and 1.
    """

    query: Query
    events: Any
    before: int
    after: int
    uneven: str = ""


TRIALS: dict[Name, Trial] = {
    "bikes": Trial(returns(1), BikesEvents(bikes=8_700, per_day=139_200), 209_000, 139_200, "bikeid"),
    "even_bikes": Trial(returns(1), BikesEvents(bikes=8_300, per_day=66_400), 100_000, 66_400),
    "operators": Trial(delays(1)[0], BusesEvents(), 200_000, 20_000),
    "vehicles": Trial(delays(1)[1], BusesEvents(), 200_000, 200_000),
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
        share = _uniform(made.columns[trial.uneven])
        made = made.where(_uniform(np.arange(start, stop) + (1 << 40)) < share)
    return Block({**made.columns, INSTANCE: np.zeros(made.length, np.int64)}, made.length)


def _uniform(numbers: NDArray[np.int64]) -> Floats:
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


# the same in a run


@dataclass(frozen=True)
class Recorded:
    """Events of a table, by their number."""

    table: pa.RecordBatch

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Some of the events."""
        return self.table.slice(start, stop - start)


def kept_by_run(name: Name, selection: str, utility: Floats | None, share_of_time: float) -> float:
    """The share of the utility that has arrived if a move ends after a share of the time for all state."""
    bytes_per_s, whole_s = whole(name)
    lost = moved(name, selection, utility, share_of_time * whole_s, bytes_per_s).lost
    return 1.0 if lost is None else 1 - lost.share


@cache
def whole(name: Name) -> tuple[float, float]:
    """A bandwidth at which all state takes `WHOLE_S` in a run, and the time that it takes."""
    state_bytes = moved(name, "greedy", None).state_bytes
    bytes_per_s = state_bytes * (1 + OVERHEAD_BYTES / SEGMENT_BYTES) / WHOLE_S
    seconds = moved(name, "greedy", None, bytes_per_s=bytes_per_s).seconds
    if seconds is None:
        raise RuntimeError(f"the move of {name} must end; it has no end")
    return bytes_per_s, seconds


def moved(
    name: Name, selection: str, utility: Floats | None, within_s: float | None = None, bytes_per_s: float = 1e9
) -> MoveReport:
    """Move the state of a running query over a link, until a deadline; utilities are learned if none are given."""
    job = _job(name, utility)
    with TemporaryDirectory() as directory:
        machine = Path(directory) / "machine.yaml"
        link = {"kbit": bytes_per_s * 8 / 1000, "segment": SEGMENT_BYTES, "overhead": OVERHEAD_BYTES}
        machine.write_text(MACHINE.format(**link))
        conf = {"topology": str(machine), "source": "outside", "selection": selection, "step_s": STEP_S}
        run = start(job, on="simulated", workers=2, policy="round-robin", mechanism="lazy-utility", conf=conf)
        (instance,) = job.graph.stateful_instances
        asked = list[str]()

        def act(run: Run, event: EpochCommitted) -> None:
            if event.at_s > MOVED_S - 1e-6 and not asked:
                asked.append(run.rebind(Binding.of({instance: 1}, 2), within_s=within_s))

        run.wait(act)
    (report,) = [each for each in run.finished if each.rebind == asked[0]]
    return report.moves[0]


def _job(name: Name, utility: Floats | None) -> Job:
    """The query of a trial, with utilities of its keys if they are given, and events at a rate that fits."""
    query, events = TRIALS[name].query, recorded(name)
    if utility is not None:
        worth = worth_of_keys(name, utility)(KEYS[name]).data()
        sink = replace(query.sink, parameters={**query.sink.parameters, "utility": worth})
        query = replace(query, operators=(*query.operators[:-1], sink))
    (stream,) = query.streams
    number = events.table.num_rows
    rate = number * MORE / (MORE + 1) / MOVED_S
    return Job.of(name, [query], {stream: Generator(events, number, rate)})


@cache
def recorded(name: Name) -> Recorded:
    """The events before the migration, and a few more."""
    trial = TRIALS[name]
    made = trial.events.batch(0, trial.before + trial.before // MORE)
    if trial.uneven:
        share = _uniform(made.column(trial.uneven).to_numpy())
        made = made.filter(pa.array(_uniform(np.arange(made.num_rows) + (1 << 40)) < share))
    return Recorded(made)


def worth_of_keys(name: Name, utility: Floats) -> Function:
    """Utilities of partial matches as a function of their keys, as a user would define it; others are worth nothing."""
    worth = dict(zip(fragments_of(name).ids.tolist(), utility.tolist(), strict=True))
    by_key = {key: worth[id_] for key, id_ in _partial_matches(name)}

    @udf("float64")
    def of_key(column: Any) -> Any:
        return np.array([by_key.get(key, 0.0) for key in list(column)])

    return of_key


def _partial_matches(name: Name) -> list[tuple[Any, int]]:
    """The key and the fragment of every row of a partial match."""
    table = state_of(name).tables[1]
    (column,) = kernel(name).table_keys(1, table)
    keys = column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
    return list(zip(keys, kernel(name).row_ids(1, table).tolist(), strict=True))
