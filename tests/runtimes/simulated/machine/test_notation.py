"""Notations: a machine in a few characters, or an error that says what to write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.runtimes.simulated.machine.hosts import Host, Link
from shoal.runtimes.simulated.machine.machine import HUB, Machine
from shoal.runtimes.simulated.machine.notation import machine_named
from shoal.runtimes.simulated.machine.quantity import BANDWIDTH_UNITS, TIME_UNITS, bandwidth, seconds


def test_cores_are_one_host_with_one_memory_node() -> None:
    assert machine_named("cores:8") == Machine((Host("host", 8),))


@given(st.integers(1, 8), st.integers(1, 64))
def test_numa_has_so_many_nodes_with_so_many_cores_each(nodes: int, cores: int) -> None:
    machine = machine_named(f"numa:{nodes}x{cores}")
    assert machine.topology.workers_of == tuple(tuple(range(n * cores, (n + 1) * cores)) for n in range(nodes))
    assert set(machine.worker_host.tolist()) == {0}


def test_a_star_has_a_link_each_way_for_every_host() -> None:
    machine = machine_named("star:2x4@10Mbit,2ms")
    assert machine.hosts == (Host("host-1", 4), Host("host-2", 4))
    ends = [("host-1", HUB), (HUB, "host-1"), ("host-2", HUB), (HUB, "host-2")]
    assert machine.links == tuple(Link(*each, 1.25e6, 0.002) for each in ends)
    assert machine.route(0, 1) == (0, 3)


def test_a_star_has_one_core_per_host_and_no_latency_unless_it_is_told() -> None:
    machine = machine_named("star:5@8MB")
    assert (machine.workers, machine.link_latency_s.max(), machine.link_bytes_per_s.min()) == (5, 0.0, 8e6)


def test_ten_thousand_hosts_are_no_matrix() -> None:
    machine = machine_named("star:10000@10Mbit")
    assert (machine.workers, len(machine.routes.uplink), len(machine.routes.start)) == (10_000, 10_000, 0)
    assert machine.topology.nodes == 10_000


def test_spark_has_executors_with_slots_behind_a_fast_switch() -> None:
    machine = machine_named("spark:20x4")
    assert machine.spark
    assert (machine.hosts[19], machine.workers) == (Host("executor-20", 4), 80)
    assert (machine.links[0].bytes_per_s, machine.links[0].latency_s) == (1.25e9, 50e-6)
    slower = machine_named("spark:2x1@1Gbit,1ms")
    assert (slower.links[0].bytes_per_s, slower.links[0].latency_s) == (1.25e8, 1e-3)


@given(st.integers(1, 10**6), st.sampled_from(sorted(BANDWIDTH_UNITS)), st.sampled_from(["", " "]))
def test_a_bandwidth_is_its_number_times_its_unit(number: int, unit: str, space: str) -> None:
    assert (
        bandwidth(f"{number}{space}{unit}", "x")
        == bandwidth(f"{number}{unit}/s", "x")
        == number * BANDWIDTH_UNITS[unit]
    )


@given(st.integers(1, 10**6), st.sampled_from(sorted(TIME_UNITS)))
def test_a_time_is_its_number_times_its_unit(number: int, unit: str) -> None:
    assert seconds(f"{number}{unit}", "x") == float(number * TIME_UNITS[unit])


def test_a_bit_is_an_eighth_of_a_byte_and_prefixes_are_decimal() -> None:
    written = ["100kbit", "10Mbit", "1Gbit", "8MB", "1KiB", 7]
    assert [bandwidth(each, "x") for each in written] == [12_500.0, 1.25e6, 1.25e8, 8e6, 1024.0, 7.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "topology must be cores:N, numa:NODESxCORES, star:", id="nothing"),
        pytest.param("8", "or FILE.yaml; got '8'", id="a number"),
        pytest.param("core:8", "got 'core:8'; did you mean 'cores'?", id="unknown kind"),
        pytest.param("cores:", "of kind 'cores' must have the form cores:N; got 'cores:'", id="no number"),
        pytest.param("cores:-1", "must have the form cores:N; got 'cores:-1'", id="negative"),
        pytest.param("cores:0", "'cores:0': cores of host 'host' must be from 1 to 1,000,000; got 0", id="no cores"),
        pytest.param("cores:9999999", "must be from 1 to 1,000,000; got 9999999", id="too many cores"),
        pytest.param("cores:٣", "must have the form cores:N", id="digits of another script"),
        pytest.param("numa:24", "must have the form numa:NODESxCORES; got 'numa:24'", id="no nodes"),
        pytest.param("numa:0x4", "a memory node, and a core on each; got 0 nodes of 4 cores", id="zero nodes"),
        pytest.param("numa:2x0", "got 2 nodes of 0 cores", id="zero cores per node"),
        pytest.param("star:5", "must have the form star:HOSTS[xCORES]@BANDWIDTH[,LATENCY]", id="no bandwidth"),
        pytest.param("star:0@1Gbit", "a machine must have at least one host", id="no hosts"),
        pytest.param("star:9999999@1Gbit", "got 9,999,999 hosts", id="too many hosts"),
        pytest.param("star:5x0@1Gbit", "cores of host 'host-1' must be from 1", id="hosts without cores"),
        pytest.param("star:5@10mbit", "got unit 'mbit' in '10mbit'; did you mean 'Mbit'?", id="case of a unit"),
        pytest.param("star:5@10Mbits", "did you mean 'Mbit'?", id="plural of a unit"),
        pytest.param("star:5@10Mbps", "got unit 'Mbps' in '10Mbps'; units are bit, kbit, Mbit", id="another unit"),
        pytest.param("star:5@10Mb", "got unit 'Mb' in '10Mb'; units are bit,", id="a unit that is bits or bytes"),
        pytest.param("star:5@10", 'or a text such as "10Mbit" or "8MB"; got \'10\'', id="no unit"),
        pytest.param("star:5@-3Mbit", "got '-3Mbit'", id="negative bandwidth"),
        pytest.param("star:5@0Mbit", "bandwidth of link host-1->hub must be above 0", id="no bandwidth at all"),
        pytest.param("star:5@1Gbit,2mss", "latency must be a number of seconds, or a text", id="unit of a latency"),
        pytest.param("star:5@1Gbit,-2ms", "latency of link host-1->hub must be from 0", id="negative latency"),
        pytest.param("spark:20", "must have the form spark:EXECUTORSxSLOTS", id="no slots"),
        pytest.param("no-such.yaml", "there is no machine file no-such.yaml", id="no file"),
    ],
)
def test_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        machine_named(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [True, None, [1], float("nan"), 10**400], ids=["bool", "null", "list", "nan", "huge"])
def test_a_quantity_is_a_number_or_a_text(value: object) -> None:
    for read in (bandwidth, seconds):
        with pytest.raises(ConfigError, match="x must be a number of"):
            read(value, "x")
