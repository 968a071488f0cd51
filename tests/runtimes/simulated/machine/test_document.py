"""Machine files: what they can say, and errors that name file and line."""

from pathlib import Path

import pytest

from shoal.errors import ConfigError
from shoal.runtimes.simulated.machine.document import load_machine
from shoal.runtimes.simulated.machine.hosts import Host, Link, Outage
from shoal.runtimes.simulated.machine.machine import Machine
from shoal.runtimes.simulated.machine.notation import machine_named

MACHINES = Path(__file__).parents[4] / "examples" / "machines"
FILE = """\
hosts:
- {name: server, cores: 8, memory_nodes: 2, speed: 2}
- name: mote
  count: 2
  cores: 1
  energy: {busy_w: 0.1, idle_w: 0.01, byte_j: 1.0e-6, battery_j: 50}
switches: [relay]
links:
- {from: mote, to: relay, bandwidth: 100kbit, latency: 10ms, segment_bytes: 100, overhead_bytes: 20}
- {from: relay, to: server, bandwidth: 1MB, both: false}
- {from: server, to: relay, bandwidth: 2MB, both: false}
outages:
- {link: [mote-1, relay], at: 30 s, until: 1 min}
- {link: [relay, server], at: 5, both: false}
- {host: mote, at: 90}
remote_byte: 1ns
queue: [1us, 2us]
slowdown: [1, 1.5]
spark: true
"""


def loaded(text: str) -> Machine:
    return load_machine(text, "f.yaml")


def test_a_file_says_everything_that_a_machine_is() -> None:
    mote = (1, 1, 1.0, 0.1, 0.01, 1e-6, 50.0)
    slow = (12_500.0, 0.01, 100, 20)
    assert loaded(FILE) == Machine(
        (Host("server", 8, 2, 2.0), Host("mote-1", *mote), Host("mote-2", *mote)),
        (
            Link("mote-1", "relay", *slow),
            Link("mote-2", "relay", *slow),
            Link("relay", "mote-1", *slow),
            Link("relay", "mote-2", *slow),
            Link("relay", "server", 1e6),
            Link("server", "relay", 2e6),
        ),
        (
            Outage(30.0, "mote-1->relay", 60.0),
            Outage(30.0, "relay->mote-1", 60.0),
            Outage(5.0, "relay->server"),
            Outage(90.0, "mote-1"),
            Outage(90.0, "mote-2"),
        ),
        ("hub", "relay"),
        1e-9,
        (1e-6, 2e-6),
        (1.0, 1.5),
        spark=True,
    )


def test_a_star_in_a_file_is_the_star_of_the_notation() -> None:
    text = "hosts: [{name: host, count: 5, cores: 4}]\nstar: {bandwidth: 10Mbit, latency: 2ms}"
    assert loaded(text) == machine_named("star:5x4@10Mbit,2ms")


def test_hosts_of_one_name_can_be_joined_with_each_other() -> None:
    text = "hosts: [{name: h, count: 3, cores: 1}]\nlinks: [{from: h, to: h, bandwidth: 1MB}]"
    names = {link.name for link in loaded(text).links}
    assert names == {f"h-{a}->h-{b}" for a in (1, 2, 3) for b in (1, 2, 3) if a != b}


def test_a_server_of_two_sockets_is_the_machine_of_the_notation_but_for_names_and_energy() -> None:
    machine = machine_named(str(MACHINES / "two-sockets.yaml"))
    assert machine.topology == machine_named("numa:2x18").topology
    assert machine.remote_byte_s == machine_named("numa:2x18").remote_byte_s


def test_motes_of_the_edge_network_reach_the_server_through_their_box() -> None:
    machine = machine_named(str(MACHINES / "edge.yaml"))
    names = [host.name for host in machine.hosts]
    motes = [number for number, host in enumerate(machine.hosts) if host.battery_j == 5000]
    assert (names.count("server"), sum(name.startswith("box") for name in names), len(motes)) == (1, 4, 10)
    route = [machine.links[number].name for number in machine.route(names.index("north-1"), names.index("south-2"))]
    assert route == ["north-1->box-1", "box-1->server", "server->box-3", "box-3->south-2"]
    down = [(machine.links[number].name, at, until) for number, at, until in machine.link_outages]
    assert down == [("box-1->server", 30.0, 50.0), ("server->box-1", 30.0, 50.0)]


def test_the_cluster_is_a_star_of_twenty_hosts_with_four_cores() -> None:
    machine = machine_named(str(MACHINES / "cluster.yaml"))
    assert (len(machine.hosts), machine.workers, machine.routes.is_star) == (20, 80, True)


def test_every_example_is_loaded_by_a_test() -> None:
    assert {path.name for path in MACHINES.iterdir()} == {"two-sockets.yaml", "edge.yaml", "cluster.yaml"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param(FILE, "", "f.yaml: the file is empty; it must have a key 'hosts'", id="empty"),
        pytest.param(FILE, "a: [", "f.yaml line 1: this is not YAML", id="not YAML"),
        pytest.param(FILE, "- 1", "f.yaml line 1: a machine file must be a mapping; got [1]", id="a list"),
        pytest.param(FILE, "spark: true", "f.yaml line 1: a machine file must have a key 'hosts'", id="no hosts"),
        pytest.param(FILE, "hosts: []", "f.yaml line 1: a machine must have at least one host", id="empty hosts"),
        pytest.param(FILE, "hosts: !!python/name:os.system x", "is not understood; leave it out", id="a tag of Python"),
        pytest.param("slowdown:", "slowdwn:", "line 18: a machine file has no key 'slowdwn'", id="unknown key"),
        pytest.param("slowdown:", "slowdwn:", "did you mean 'slowdown'?", id="nearest key"),
        pytest.param("cores: 8", "cores: 0", "line 2: cores of host 'server' must be from 1", id="no cores"),
        pytest.param("cores: 8", "cores: two", "line 2: cores must be a whole number; got two", id="a word for cores"),
        pytest.param(
            "cores: 8, ", "", "line 2: a host must have a key 'cores'; got {name: server", id="cores left out"
        ),
        pytest.param("speed: 2", "speed: fast", "line 2: speed must be a number; got fast", id="a word for a speed"),
        pytest.param("speed: 2", "speed: -2", "line 2: speed of host 'server' must be above 0", id="negative speed"),
        pytest.param("count: 2", "count: 0", "line 4: count of hosts 'mote' must be at least 1; got 0", id="no count"),
        pytest.param("count: 2", "count: 200000", "line 3: a machine must have at most 100,000 hosts", id="huge count"),
        pytest.param("busy_w", "busy_watt", "line 6: energy has no key 'busy_watt'", id="unknown energy"),
        pytest.param(
            "battery_j: 50", "battery_j: 0", "line 3: battery_j of host 'mote-1' must be above 0", id="battery"
        ),
        pytest.param(
            "name: server",
            "name: mote-1",
            "line 3: hosts must have names of their own; got 'mote-1' twice",
            id="one name twice",
        ),
        pytest.param("name: server", "name: mote", "line 3: hosts must have names of their own", id="group as a host"),
        pytest.param("name: server", "name: hub", "line 2: 'hub' is the switch of stars", id="a host named hub"),
        pytest.param(
            "[relay]", "[server]", "line 7: a switch must have a name of its own; got 'server'", id="same name"
        ),
        pytest.param(
            "[relay]", "[mote]", "line 7: a switch must have a name of its own; got 'mote'", id="name of group"
        ),
        pytest.param("[relay]", "[re/lay]", "line 7: name of a switch must consist of letters", id="name of a switch"),
        pytest.param(
            "to: relay, bandwidth: 100",
            "to: relais, bandwidth: 100",
            "line 9: to of a link must be a host, hosts of one name, or a switch; got 'relais'; did you mean 'relay'?",
            id="unknown end",
        ),
        pytest.param(
            "from: mote,", "from: x,", "got 'x'; there are server, mote, mote-1, mote-2, hub, relay", id="no end"
        ),
        pytest.param("from: mote, ", "", "line 9: a link must have a key 'from'", id="no source"),
        pytest.param(
            "to: server, b", "to: relay, b", "line 10: a link must have two ends; got 'relay'", id="same ends"
        ),
        pytest.param("100kbit", "100Kbit", "line 9: bandwidth must be a number of bytes per second", id="unit"),
        pytest.param("100kbit", "100Kbit", "did you mean 'kbit'?", id="nearest unit"),
        pytest.param("100kbit", "-100", "line 9: bandwidth of link mote-1->relay must be above 0", id="negative"),
        pytest.param("bandwidth: 100kbit, ", "", "line 9: a link must have a key 'bandwidth'", id="no bandwidth"),
        pytest.param("10ms", "10 mils", "line 9: latency must be a number of seconds", id="unit of a latency"),
        pytest.param("segment_bytes: 100", "segment_bytes: 0", "line 9: segments of link mote-1->relay", id="segment"),
        pytest.param(
            "1MB, both: false", "1MB, both: no", "line 10: both must be true or false; got ", id="no for false"
        ),
        pytest.param("1MB, both: false", "1MB", "one link from an end to another; got 'server->relay' 2", id="twice"),
        pytest.param(
            "- {from: server, to: relay, bandwidth: 2MB, both: false}",
            "- {from: hub, to: relay, bandwidth: 1}",
            "line 9: hosts must be joined by links; no route leads from 'server' to 'mote-1'",
            id="no route",
        ),
        pytest.param(
            "[mote-1, relay]", "[mote-1]", "line 13: link of an outage must be its two ends", id="one end down"
        ),
        pytest.param("[mote-1, relay]", "[mote-1, server]", "line 13: there is no link mote-1->server", id="no link"),
        pytest.param("[mote-1, relay]", "[mote-3, relay]", "line 13: link of an outage must be a host", id="no host"),
        pytest.param(
            "until: 1 min", "until: 3 s", "line 13: outage of 'mote-1->relay' must end after", id="ends first"
        ),
        pytest.param("at: 90", "at: 90, announced: -1", "line 15: outage of 'mote-1' must be announced", id="too late"),
        pytest.param("host: mote", "host: moat", "line 15: host of an outage must be a host", id="outage of nothing"),
        pytest.param(
            "host: mote",
            "host: relay",
            "line 15: host of an outage must be a host or hosts of one name; got 'relay'",
            id="outage of a switch",
        ),
        pytest.param(
            "host: mote, at", "host: mote, link: [a, b], at", "either of a host or of a link", id="outage of two"
        ),
        pytest.param(
            "host: mote, at: 90", "host: mote", "line 15: an outage must have a key 'at'", id="outage at no time"
        ),
        pytest.param(
            "host: mote, at", "host: mote, both: true, at", "'both' is for outages of links", id="host both ways"
        ),
        pytest.param(
            "{host: mote, at: 90}", "{link: [mote, relay], at: 40}", "must not overlap", id="overlapping outages"
        ),
        pytest.param("1ns", "1 nano", "line 16: remote_byte must be a number of seconds", id="unit of remote bytes"),
        pytest.param("1ns", "-1", "remote_byte_s of a machine must be 0 or more", id="negative remote bytes"),
        pytest.param("[1us, 2us]", "1us", 'line 17: queue must be a list; got "1us"', id="queue is no list"),
        pytest.param("[1, 1.5]", "[1, 0]", "every factor of slowdown must be above 0", id="no slowdown"),
        pytest.param("spark: true", "spark: 1", "line 19: spark must be true or false; got 1", id="spark is a number"),
    ],
)
def test_a_mistake_is_named_with_its_line(old: str, new: str, message: str) -> None:
    assert old in FILE
    with pytest.raises(ConfigError) as caught:
        loaded(FILE.replace(old, new, 1))
    assert str(caught.value).startswith("f.yaml")
    assert message in str(caught.value)


def test_one_item_stands_for_a_limited_number_of_links() -> None:
    text = "hosts: [{name: h, count: 2000, cores: 1}]\nlinks: [{from: h, to: h, bandwidth: 1MB}]"
    with pytest.raises(ConfigError, match=r"line 2: one item must stand for at most 1,000,000 links; got 4,000,000"):
        loaded(text)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="must be UTF-8 text"):
        machine_named(str(tmp_path / "m.yaml"))
    (tmp_path / "d.yaml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read: is a directory"):
        machine_named(str(tmp_path / "d.yaml"))
