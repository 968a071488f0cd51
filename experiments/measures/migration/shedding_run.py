"""Partial matches that move between two simulated hosts in a run, until a deadline."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from measures.migration.partial_matches import (
    OVERHEAD_BYTES,
    SEGMENT_BYTES,
    TRIALS,
    WHOLE_S,
    Floats,
    Name,
    fragments_of,
    kernel,
    state_of,
    uniform,
)
from shoal.connectors.sources.generator import Generator
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted, MoveReport
from shoal.model.query.functions import Function, udf
from shoal.session.job import Job
from shoal.session.run import Run, start

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
        share = uniform(made.column(trial.uneven).to_numpy())
        made = made.filter(pa.array(uniform(np.arange(made.num_rows) + (1 << 40)) < share))
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
