"""Every workload against its oracle in simulated time, while instances move and split and hosts fail."""

import random
from pathlib import Path

import pytest
from tests.end_to_end.test_workloads import SMALL, assert_right

from shoal.model.control.messages import EpochCommitted, Rebind, Repartition
from shoal.policies.binding.static import shuffled
from shoal.session.partitions import random_changes
from shoal.session.run import Run, start
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.workload import Amount

MACHINES = {1: (1, 1, 1), 7: (7, 1, 1), 24: (2, 12, 2), 64: (16, 4, 1)}
"""Hosts, their cores and memory nodes, by the number of workers."""
SECONDS = 0.5
"""Simulated time in which all events arrive."""


def machine(directory: Path, workers: int, draw: random.Random) -> str:
    """A machine of which up to half of the hosts fail, some for good; the first one stays."""
    hosts, cores, nodes = MACHINES[workers]
    down = draw.sample(range(2, hosts + 1), hosts // 2)
    begin = {host: draw.uniform(0.0, SECONDS) for host in down}
    end = {host: begin[host] + draw.uniform(0.01, 0.3) for host in down[::2]}
    outages = [
        f"{{host: box-{host}, at: {begin[host]}{f', until: {end[host]}' if host in end else ''}}}" for host in down
    ]
    file = directory / "machine.yaml"
    file.write_text(
        f"hosts: [{{name: box, count: {hosts}, cores: {cores}, memory_nodes: {nodes}}}]\n"
        f"star: {{bandwidth: 1Gbit, latency: 1ms}}\noutages: [{', '.join(outages)}]\n"
    )
    return str(file)


def check(name: str, workers: int, seed: int, directory: Path) -> Run:
    small, draw = SMALL[name], random.Random(seed)
    amount = Amount(small.events, small.events / SECONDS, small.rows_per_epoch)
    ready = WORKLOADS[name].ready(seed, amount, small.settings)

    def disturb(run: Run, event: EpochCommitted) -> None:
        number = draw.randint(1, run.topology.workers)
        run.attempt(Rebind(shuffled(run.graph, number, event.epoch), id=f"shuffle {event.epoch}"))
        if draw.random() < 0.2:
            changes = random_changes(run.graph, event.snapshot.partitioning, draw)
            run.attempt(Repartition(tuple(changes)))

    conf = {"epoch_s": "0.05", "work_factor": "20"}
    run = start(ready.job, on="simulated", topology=machine(directory, workers, draw), conf=conf, seed=seed)
    run.wait(disturb)
    assert_right(run, ready)
    return run


@pytest.mark.parametrize(("name", "workers"), [("skew", 1), ("ysb", 7), ("nyt", 24), ("traffic", 64)])
def test_a_workload_equals_its_oracle_while_instances_move_and_hosts_fail(
    name: str, workers: int, tmp_path: Path
) -> None:
    run = check(name, workers, 1, tmp_path)
    assert run.tally.moves > 0 or workers == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workers", MACHINES)
@pytest.mark.parametrize("name", SMALL)
def test_a_workload_equals_its_oracle_on_any_number_of_workers(
    name: str, workers: int, seed: int, tmp_path: Path
) -> None:
    check(name, workers, seed, tmp_path)
