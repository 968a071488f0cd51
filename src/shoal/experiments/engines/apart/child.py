"""Runs queries in a Python without Shoal: a request per line in, a reply per line out, both JSON.

Started with the path of an adapter, a file with a function `prepare(job)`. It checks the queries of a job and returns
a function that runs them and yields the name of each output with its rows, an Arrow table.
"""

import json
import os
import runpy
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


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
                run = prepare(request["prepare"])
                reply = {"ready": True}
            else:
                began = time.perf_counter()
                written = [_written(output, table, request["run"]) for output, table in run()]
                reply = {"results": written, "elapsed_s": time.perf_counter() - began}
        except Exception as error:  # noqa: BLE001  (the parent reports every failure)
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _written(output: str, table: Any, directory: str) -> list[str]:
    """Write the rows of an output as an Arrow file."""
    import pyarrow as pa

    path = Path(directory) / f"{time.time_ns()}.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return [output, str(path)]


if __name__ == "__main__":
    main()
