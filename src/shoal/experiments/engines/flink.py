"""Apache Flink as a peer: the same events from CSV files, the same query in Flink's SQL, in a Python that has PyFlink.

PyFlink pins versions of Arrow and NumPy that are not Shoal's, so it needs its own environment: the Python
named by SHOAL_FLINK_PYTHON, with `pip install apache-flink`. Its packages can read CSV and JSON files only.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from shoal.errors import ConfigError, RunError
from shoal.experiments import files
from shoal.experiments.queries import FLINK_PLACED, peer_query
from shoal.experiments.workload_trial import WorkloadTrial
from shoal.workloads.workload import Ready
from shoal.workloads.ysb.events import YsbEvents

PYTHON = "SHOAL_FLINK_PYTHON"
TYPES = {"time": "TIMESTAMP(6)", "long": "BIGINT", "double": "DOUBLE", "text": "STRING"}
SCRIPT = Path(__file__).with_name("flink_script.py")


def run(trial: WorkloadTrial, made: Ready) -> tuple[float, Mapping[str, pa.Table]]:
    """Time from submitting the query to its last result, and the results."""
    python = os.environ.get(PYTHON)
    if not python:
        raise ConfigError(f"flink needs {PYTHON}, the path of a Python with apache-flink installed (and JAVA_HOME)")
    query = peer_query(trial.workload, trial.engine, trial.settings)
    events = files.generator(made, trial).made_by
    campaigns = events.campaigns if isinstance(events, YsbEvents) else 0
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as text:
        directory = Path(text)
        (directory / "events").mkdir()
        files.write(made, trial, directory / "events", "csv")
        job = {
            "workers": trial.workers,
            "table": _table(query.columns, query.time, directory / "events"),
            "placed": FLINK_PLACED[trial.workload].format(campaigns=campaigns),
            "query": query.flink,
            "results": str(directory / "results.json"),
        }
        done = subprocess.run([python, str(SCRIPT), json.dumps(job)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunError(f"flink failed: {_reason(done.stderr)}")
        found = json.loads((directory / "results.json").read_text(encoding="utf-8"))
    return float(found["elapsed_s"]), {query.table: _results(found["names"], found["rows"])}


def _reason(text: str) -> str:
    """The innermost cause in a Java or Python traceback."""
    lines = [line.strip() for line in text.strip().splitlines()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    named = [line for line in lines if "Exception:" in line or "Error:" in line]
    return (causes or named or lines or ["no message"])[-1]


def _table(columns: tuple[tuple[str, str], ...], time: str, directory: Path) -> str:
    fields = ", ".join(f"{name}{'_us' * (name == time)} {TYPES[kind]}" for name, kind in columns)
    fields += f", {time} AS CAST({time}_us AS TIMESTAMP(3))"  # the finest unit that Flink supports for event time
    options = f"'connector' = 'filesystem', 'path' = 'file://{directory}', 'format' = 'csv'"
    # Flink reads files and parts of them in any order; with a shorter delay it silently drops rows as late.
    watermark = f"WATERMARK FOR {time} AS {time} - INTERVAL '30' DAY"
    return f"CREATE TABLE events ({fields}, {watermark}) WITH ({options})"


def _results(names: list[str], rows: list[list[object]]) -> pa.Table:
    columns = [pa.array([row[at] for row in rows]) for at in range(len(names))]
    table = pa.table(columns, names=names)
    at = names.index("window_end")
    return table.set_column(at, "window_end", table["window_end"].cast(pa.timestamp("us")))
