"""What a second core can bring: one worker alone, two workers in one run, and two runs of one worker at the same time.

The two runs share nothing but the machine: caches, memory and whatever two processors have in common. So their sum is a
bound for any design with two workers. Every run is a process of its own, started by the command of a user; the two
runs are started together and are long, so that they hardly run without each other.
"""

import json
import subprocess
import sys
from typing import Any

from shoal.errors import RunError
from shoal.experiments.experiment import TrialOutcome

COMMAND = "from shoal.cli.main import main; main()"
"""What `shoal` does, in the Python of this process."""


def parts(workload_name: str, events: int) -> TrialOutcome:
    """Events per second alone, by two workers, and by two processes together; both over the first are `times`."""
    (alone,) = _finished([_started(workload_name, events, workers=1)])
    (two,) = _finished([_started(workload_name, events, workers=2)])
    together = _finished([_started(workload_name, events, workers=1) for _ in range(2)])
    digests = {each["result_digest"] for each in (alone, two, *together)}
    if len(digests) > 1:
        raise RunError(f"runs of {workload_name} must have the same results; got {len(digests)} different digests")
    rate, workers, processes = (sum(each["events_per_s"] for each in runs) for runs in ([alone], [two], together))
    return TrialOutcome(
        {
            "one_worker": rate,
            "two_workers": workers,
            "two_processes": processes,
            "times.workers": workers / rate,
            "times.processes": processes / rate,
        }
    )


def _started(workload_name: str, events: int, workers: int) -> subprocess.Popen[str]:
    options = ["--on", "local", "--workers", str(workers), "--events", str(events), "--json"]
    command = [sys.executable, "-c", COMMAND, "run", workload_name, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _finished(processes: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    outputs = [process.communicate()[0] for process in processes]
    failed = [process.returncode for process in processes if process.returncode]
    if failed:
        raise RunError(f"a run ended with exit code {failed[0]}")
    return [json.loads(output) for output in outputs]
