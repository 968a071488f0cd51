"""The CPU time of an event as windows grow: range joins, patterns, count windows and sessions."""

import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

import shoal
from measures.kernels.one_worker import OneWorker
from measures.kernels.window_cases import CASES, Rows, WindowCase
from measures.outcome import checked
from shoal.errors import ConfigError
from shoal.experiments.experiment import TrialOutcome
from shoal.session.digest import differences, result_digest

EPOCH_ROWS = 10_000


def growth(case: str, window_rows: int, events: int = 200_000) -> TrialOutcome:
    """Run a case twice: the first time compiles, and its results are checked.

    `state_rows` is the most rows of state; it is also given for the second quarter of the run and for the second half,
    which shows whether state still grows.
    """
    if case not in CASES:
        raise ConfigError(f"case must be one of {', '.join(CASES)}; got {case!r}")
    chosen = CASES[case](window_rows, events)
    batches = list(_epochs(chosen.events))
    worker, _ = _run(chosen, batches)
    tables = worker.tables()
    wrong = differences(tables, chosen.expected())
    _, cpu_s = _run(chosen, batches)
    rows = np.array(worker.state_rows)
    metrics = {
        "us_per_event": cpu_s / chosen.rows * 1e6,
        "results_per_event": sum(table.num_rows for table in tables.values()) / chosen.rows,
        "state_rows": float(rows.max()),
        "state_rows.second_quarter": float(rows[len(rows) // 4 : len(rows) // 2].max(initial=0)),
        "state_rows.second_half": float(rows[len(rows) // 2 : -1].max(initial=0)),
    }
    answers = {name: result_digest({name: table}) for name, table in tables.items()}
    return checked(metrics, wrong, answers)


def _run(case: WindowCase, batches: Sequence[Mapping[str, pa.RecordBatch]]) -> tuple[OneWorker, float]:
    """Run all epochs; gives the worker and the CPU seconds it took."""
    worker = OneWorker(shoal.Graph.of([case.query]))
    began = time.process_time()
    for each in batches:
        worker.epoch(each)
    worker.drain()
    return worker, time.process_time() - began


def _epochs(events: Rows) -> Iterator[dict[str, pa.RecordBatch]]:
    """Equal shares of every stream."""
    each = EPOCH_ROWS // len(events)
    longest = max(rows.num_rows for rows in events.values())
    for start in range(0, longest, each):
        cut = {name: rows.slice(start, each).combine_chunks().to_batches() for name, rows in events.items()}
        yield {name: batches[0] for name, batches in cut.items()}
