"""Whole jobs on machines whose hosts and links fail: no result is lost, doubled or changed."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.small_city import city, result_tables

from shoal.errors import RunError
from shoal.model.control.messages import EpochCommitted
from shoal.session.digest import differences
from shoal.session.run import Run, Watcher, start

RATE = 20_000.0
"""Events of the small city per second, so that a run takes 0.45 s."""


def written(directory: Path, text: str) -> str:
    file = directory / "machine.yaml"
    file.write_text(text)
    return str(file)


def run_city(topology: str, policy: str | None = None, watcher: Watcher | None = None, **settings: str) -> Run:
    ready = city(rate=RATE)
    conf = {"epoch_s": "0.02", "work_factor": "20", **settings}
    run = start(ready.job, on="simulated", topology=topology, policy=policy, conf=conf)
    run.wait(watcher)
    assert differences(result_tables(run), ready.expected(run.consumed)) == []
    return run


MACHINE = """
hosts: [{{name: box, count: 3, cores: 2}}, {{name: big, cores: 4, memory_nodes: 2}}]
star: {{bandwidth: 20Mbit, latency: 2ms}}
outages: [{outages}]
"""


def outage(what: str, at_s: float, for_s: float | None) -> str:
    until = "" if for_s is None else f", until: {at_s + for_s}"
    return f"{{{what}, at: {at_s}{until}}}"


@st.composite
def machines(draw: st.DrawFn) -> str:
    times, lengths = st.floats(0.0, 0.4), st.floats(0.005, 0.3)
    boxes = draw(st.sets(st.sampled_from(["box-1", "box-2", "box-3"]), max_size=3))
    found = [outage(f"host: {host}", draw(times), draw(st.none() | lengths)) for host in sorted(boxes)]
    if draw(st.booleans()):
        found.append(outage("host: big", draw(times), draw(lengths)))
    joined = draw(st.sets(st.sampled_from(["box-1", "box-2", "big"]), max_size=2))
    found += [outage(f"link: [{host}, hub]", draw(times), draw(lengths)) for host in sorted(joined)]
    return MACHINE.format(outages=", ".join(found))


@given(machine=machines(), queues=st.sampled_from(["worker-queue", "node-queue"]))
@settings(max_examples=8, deadline=None)
def test_failures_of_hosts_and_links_change_no_result(
    machine: str, queues: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run_city(written(tmp_path_factory.mktemp("machine"), machine), "greedy", queues=queues)


@pytest.mark.slow
@given(machine=machines(), queues=st.sampled_from(["worker-queue", "node-queue"]))
@settings(max_examples=150, deadline=None)
def test_many_more_failures_change_no_result(
    machine: str, queues: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run_city(written(tmp_path_factory.mktemp("machine"), machine), "greedy", queues=queues)


def test_instances_of_a_failed_host_are_bound_to_workers_that_are_left(tmp_path: Path) -> None:
    run = run_city(written(tmp_path, MACHINE.format(outages=outage("host: box-1", 0.1, None))))
    assert [event.workers for event in run.lost] == [(0, 1)]
    assert run.binding is not None
    assert run.binding.workers == 8
    assert run.runtime.topology.nodes == 4


def test_a_host_that_is_down_from_the_beginning_has_no_instances(tmp_path: Path) -> None:
    run = run_city(written(tmp_path, MACHINE.format(outages=outage("host: box-2", 0.0, None))))
    assert [event.workers for event in run.lost] == [(2, 3)]
    assert run.tally.results > 0


def test_a_query_can_be_removed_while_hosts_fail(tmp_path: Path) -> None:
    machine = MACHINE.format(outages=", ".join(outage(f"host: box-{n}", 0.06 * n, None) for n in (1, 2, 3)))
    ready = city(rate=RATE)
    conf = {"epoch_s": "0.02", "work_factor": "200"}
    run = start(ready.job, on="simulated", topology=written(tmp_path, machine), conf=conf)
    gone = min(run.graph.queries)

    def watch(run: Run, event: EpochCommitted) -> None:
        if event.epoch == 2:
            run.remove(gone)

    run.wait(watch)
    assert not run.refused
    assert gone not in run.graph.queries
    assert len(run.lost) == 3


def test_a_run_whose_only_host_does_not_return_ends_with_an_error(tmp_path: Path) -> None:
    machine = "{hosts: [{name: box, cores: 2}], outages: [{host: box, at: 0.1}]}"
    with pytest.raises(RunError, match="cannot go on: instances wait for workers or links that do not return"):
        run_city(written(tmp_path, machine))


def test_a_change_of_queries_on_a_host_that_does_not_return_ends_with_an_error(tmp_path: Path) -> None:
    machine = "{hosts: [{name: box, cores: 2}], outages: [{host: box, at: 0.1}]}"

    def watch(run: Run, event: EpochCommitted) -> None:
        if event.epoch == 6:
            run.remove(min(run.graph.queries))

    with pytest.raises(RunError, match="cannot go on"):
        run_city(written(tmp_path, machine), watcher=watch)


BATTERY = """
hosts:
  - {name: mote, cores: 2, energy: {busy_w: 2, idle_w: 2, battery_j: 1.0}}
  - {name: server, cores: 4, energy: {busy_w: 20, idle_w: 5, byte_j: 1e-6}}
star: {bandwidth: 20Mbit}
"""


def test_a_host_fails_when_its_battery_is_empty(tmp_path: Path) -> None:
    run = run_city(written(tmp_path, BATTERY))
    (lost,) = run.lost
    assert (lost.workers, lost.reason) == ((0, 1), "host mote has failed")
    assert lost.at_s == pytest.approx(0.26)  # 1 J at 4 W, noticed at the end of the epoch
    report = run.runtime.machine_report()
    assert report is not None
    mote, server = report["hosts"]
    assert mote["battery_left_j"] == pytest.approx(0.0, abs=0.002)
    assert mote["failed"]
    assert server["battery_left_j"] is None
    assert not server["failed"]


def test_energy_is_power_by_time_and_bytes_at_both_ends(tmp_path: Path) -> None:
    run = run_city(written(tmp_path, BATTERY.replace("battery_j: 1.0", "byte_j: 2e-6")))
    report = run.runtime.machine_report()
    assert report is not None
    (mote, server), seconds = report["hosts"], run.runtime.now_s()
    assert mote["bytes_sent"] == server["bytes_received"] > 0
    moved = mote["bytes_sent"] + mote["bytes_received"]
    assert mote["joules"] == pytest.approx(2 * seconds * 2 + 2e-6 * moved, rel=1e-3)
    busy_s = server["busy_share"] * 4 * seconds
    assert server["joules"] == pytest.approx(20 * busy_s + (4 * seconds - busy_s) * 5 + 1e-6 * moved, rel=1e-3)
    assert report["joules"] == pytest.approx(mote["joules"] + server["joules"], rel=1e-6)
    assert sum(link["bytes"] for link in report["links"]) == pytest.approx(2 * moved, abs=4)
