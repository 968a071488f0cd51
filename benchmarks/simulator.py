"""What simulated runs cost: wall time, processor time and peak memory, in statistical mode.

    python benchmarks/simulator.py --repeat 5

Every run is a process of its own. One short run before the others compiles the event core, which is then cached.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass

import table
from spread import Spread
from spread import text as spread_text

from shoal.experiments.machine import described, sentence

SHOAL = [sys.executable, "-c", "from shoal.cli.main import cli; cli()"]
RUN = [*SHOAL, "run", "traffic", "--on", "simulated", "--set", "mode=statistical", "--json"]
CASES = {
    "24 cores, 300 queries, 9 M events/s, 100 s": [
        *("--topology", "numa:2x12", "--seconds", "100"),
        *("--set", "vehicles=360000", "--set", "steps_per_s=25"),
    ],
    "the same, policy guarded": [
        *("--topology", "numa:2x12", "--seconds", "100", "--policy", "guarded"),
        *("--set", "vehicles=360000", "--set", "steps_per_s=25"),
    ],
    "10,000 hosts, 100,002 instances, 60 s": [
        *("--topology", "star:10000@1Gbit", "--seconds", "60", "--set", "source=outside"),
        *("--set", "vehicles=1000000", "--set", "regions=33334", "--conf", "step_s=1", "--conf", "epoch_s=1"),
    ],
}
WARM_UP = ["--topology", "cores:2", "--events", "100000"]


@dataclass(frozen=True)
class Taken:
    """What a process took, and what it reported."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    events: int
    results: int


def run(arguments: list[str]) -> Taken:
    """Run the command in a process, on one core."""
    began_s = time.monotonic()
    with subprocess.Popen([*RUN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
        assert process.stdout is not None
        assert process.stderr is not None
        output, said = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(process.args)} failed with code {process.returncode}: {said}")
    data = json.loads(output)
    wall_s = time.monotonic() - began_s
    return Taken(
        wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, int(data["events"]), int(data["results"])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose names contain this text")
    options = parser.parse_args()
    print(sentence(described()))
    run(WARM_UP)
    rows = []
    for name, arguments in CASES.items():
        if options.only not in name:
            continue
        taken = [run(arguments) for _ in range(options.repeat)]
        assert len({(each.events, each.results) for each in taken}) == 1, "runs of one seed differ"
        measured = ([getattr(each, what) for each in taken] for what in ("wall_s", "cpu_s", "peak_mb"))
        spreads = [spread_text(Spread.of(values).data()) for values in measured]
        rows.append([name, f"{taken[0].events:,}", f"{taken[0].results:,}", *spreads])
        print(table.markdown(["run", "events", "results", "wall s", "processor s", "peak MB"], rows[-1:]), flush=True)


if __name__ == "__main__":
    main()
