"""Runs queries in a Python without Shoal: a request per line in, a reply per line out, both JSON.

Started with the path of an adapter, a file with a function `prepare(job)`. It checks the queries of a job and returns
a function that runs them and yields the name of each output with its rows, an Arrow table. A query whose text is
`FILE.py:FUNCTION` has that function under `program`. An error that begins with `query 'NAME': ` is about that query.
"""

import json
import os
import re
import runpy
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PROGRAM = re.compile(r"\s*([\w./-]+\.py):(\w+)\s*")


def main() -> None:
    """Answer requests until there are no more."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not look like a reply
    prepare = runpy.run_path(sys.argv[1])["prepare"]
    run: Callable[[], Iterable[tuple[str, Any]]] = list
    reply: dict[str, Any]
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "prepare" in request:
                run = prepare(_with_programs(request["prepare"]))
                reply = {"ready": True}
            else:
                began = time.perf_counter()
                written = [_written(output, table, request["run"]) for output, table in run()]
                reply = {"results": written, "elapsed_s": time.perf_counter() - began}
        except Exception as error:  # noqa: BLE001  (the parent reports every failure)
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _with_programs(job: dict[str, Any]) -> dict[str, Any]:
    """The job with the functions that its queries name; paths are relative to the directory of the job."""
    for query in job["queries"]:
        if found := PROGRAM.fullmatch(query["text"]):
            query["program"] = _function(query["name"], Path(job["directory"]) / found[1], found[2])
    return job


def _function(query: str, path: Path, name: str) -> Callable[..., Any]:
    """A function of a Python file, which may import the modules beside it."""
    if not path.is_file():
        raise ValueError(f"query {query!r}: there is no file {path}")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    found = runpy.run_path(str(path))
    if name not in found:
        raise ValueError(f"query {query!r}: {path.name} has no function {name!r}")
    return found[name]


def _written(output: str, table: Any, directory: str) -> list[str]:
    """Write the rows of an output as an Arrow file."""
    import pyarrow as pa

    path = Path(directory) / f"{time.time_ns()}.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return [output, str(path)]


if __name__ == "__main__":
    main()
