"""What simulated runs cost: wall time, processor time and peak memory of `shoal run traffic`, in statistical mode."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass

from shoal.errors import RunError
from shoal.experiments.experiment import TrialOutcome

SHOAL = [sys.executable, "-c", "from shoal.cli.main import cli; cli()"]
RUN = [*SHOAL, "run", "traffic", "--on", "simulated", "--set", "mode=statistical", "--json"]
WARM_UP = ["--topology", "cores:2", "--events", "100000"]


@dataclass(frozen=True)
class Taken:
    """What a process took, and what it reported."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    events: int
    results: int


def run(
    topology: str,
    seconds: int,
    vehicles: int,
    policy: str = "",
    regions: int = 100,
    steps_per_s: int = 0,
    step_s: float = 0.0,
    outside: bool = False,
) -> TrialOutcome:
    """A run in a process of its own on one core, after a short one that compiles the event core.

    `step_s` is also the length of an epoch. With `outside` the source is a host beside those of the topology.
    """
    arguments = ["--topology", topology, "--seconds", str(seconds), "--set", f"vehicles={vehicles}"]
    arguments += ["--set", f"regions={regions}"]
    arguments += ["--policy", policy] if policy else []
    arguments += ["--set", f"steps_per_s={steps_per_s}"] if steps_per_s else []
    arguments += ["--conf", f"step_s={step_s:g}", "--conf", f"epoch_s={step_s:g}"] if step_s else []
    arguments += ["--set", "source=outside"] if outside else []
    _taken(WARM_UP)
    taken = _taken(arguments)
    metrics = {
        "wall_s": taken.wall_s,
        "cpu_s": taken.cpu_s,
        "peak_mb": taken.peak_mb,
        "events": taken.events,
        "results": taken.results,
    }
    return TrialOutcome(metrics)


def _taken(arguments: list[str]) -> Taken:
    """Run the command in a process, on one core."""
    began_s = time.monotonic()
    with subprocess.Popen([*RUN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
        output, said = (stream.read() if stream else "" for stream in (process.stdout, process.stderr))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RunError(f"{' '.join(arguments)} failed with code {process.returncode}: {said.strip()}")
    data, wall_s = json.loads(output), time.monotonic() - began_s
    used_s, peak_mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    return Taken(wall_s, used_s, peak_mb, int(data["events"]), int(data["results"]))
