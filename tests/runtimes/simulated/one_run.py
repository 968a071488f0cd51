"""Runs the small city in simulated time, and prints a digest of all that can be observed: `python one_run.py SEED`."""

import hashlib
import sys
import tempfile
from pathlib import Path

from tests.small_city import city, digest

from shoal.control.settings import ControlSettings
from shoal.model.control.messages import EpochCommitted
from shoal.session.run import Run, start

MACHINE = """
hosts: [{name: box, count: 2, cores: 2}, {name: big, cores: 4, memory_nodes: 2}]
star: {bandwidth: 20Mbit, latency: 2ms}
outages: [{host: box-1, at: 0.2}, {link: [big, hub], at: 0.1, until: 0.15}]
"""


def observed(seed: int, directory: Path) -> tuple[Run, list[EpochCommitted]]:
    """A run that moves instances and loses a host, and its epochs."""
    machine, epochs = directory / "machine.yaml", list[EpochCommitted]()
    machine.write_text(MACHINE)
    run = start(
        city(rate=20_000.0).job,
        on="simulated",
        topology=str(machine),
        policy="greedy",
        conf={"epoch_s": "0.02", "work_factor": "200"},
        control=ControlSettings(window_s=0.05, rest_s=0.05, horizon_s=1.0),
        journal=str(directory / "journal"),
        seed=seed,
    )
    run.wait(lambda _, epoch: epochs.append(epoch))
    return run, epochs


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        run, epochs = observed(int(sys.argv[1]), Path(name))
        journal = [file.read_text() for file in sorted((Path(name) / "journal").rglob("*")) if file.is_file()]
        if not (journal and run.lost and run.tally.moves):
            sys.exit("the run must write a journal, lose workers and move instances")
        texts = [*map(repr, (*epochs, *run.finished, *run.lost)), *journal, digest(run)]
        sys.stdout.write(hashlib.sha256("\n".join(texts).encode()).hexdigest())
