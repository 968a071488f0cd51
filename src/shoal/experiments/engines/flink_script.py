"""Runs one query on Flink in a Python with PyFlink and without Shoal: a job as JSON in, results as JSON out."""

import json
import sys
import time
from pathlib import Path


def main() -> None:
    """Run the job and write its results and its time."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    job = json.loads(sys.argv[1])
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("parallelism.default", str(job["workers"]))
    tables.get_config().set("table.local-time-zone", "UTC")
    tables.execute_sql(job["table"])
    tables.execute_sql(f"CREATE TEMPORARY VIEW placed AS {job['placed']}")
    began = time.perf_counter()
    result = tables.execute_sql(job["query"])
    names = result.get_table_schema().get_field_names()
    with result.collect() as found:
        rows = [[_plain(value) for value in row] for row in found]
    elapsed_s = time.perf_counter() - began
    Path(job["results"]).write_text(
        json.dumps({"elapsed_s": elapsed_s, "names": names, "rows": rows}), encoding="utf-8"
    )


def _plain(value: object) -> object:
    """Times as ISO text."""
    return value.isoformat() if hasattr(value, "isoformat") else value


if __name__ == "__main__":
    main()
