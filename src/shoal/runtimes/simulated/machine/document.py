"""Machine files: a machine as YAML. Every mistake in one is an error with file and line."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError, GraphError, did_you_mean, reason_of
from shoal.language.yaml.document import YamlPart
from shoal.runtimes.simulated.machine.hosts import Host, Link, Outage, check_name, check_size, link_name
from shoal.runtimes.simulated.machine.machine import HUB, Machine
from shoal.runtimes.simulated.machine.quantity import bandwidth, seconds

KEYS = ("hosts", "switches", "star", "links", "outages", "remote_byte", "queue", "slowdown", "spark")
ENERGY_KEYS = ("busy_w", "idle_w", "byte_j", "battery_j")
HOST_KEYS = ("name", "count", "cores", "memory_nodes", "speed", "energy")
STAR_KEYS = ("bandwidth", "latency", "segment_bytes", "overhead_bytes")
LINK_KEYS = ("from", "to", "both", *STAR_KEYS)
OUTAGE_KEYS = ("host", "link", "both", "at", "until", "announced")
MOST_PAIRS = 1_000_000
"""Pairs of ends that one item of a file may stand for."""


def read_machine(path: Path) -> Machine:
    """The machine that a file describes."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no machine file {path}") from error
    except OSError as error:
        raise ConfigError(f"machine file {path} cannot be read: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"machine file {path} must be UTF-8 text") from error
    return load_machine(text, str(path))


def load_machine(text: str, file: str) -> Machine:
    """The machine that a text describes; `file` is what errors call it.

    >>> load_machine("{hosts: [{name: box, count: 3, cores: 2}], star: {bandwidth: 10Mbit}}", "f.yaml").workers
    6
    """
    try:
        return _machine(YamlPart.of(text, file, needs="hosts"))
    except GraphError as error:  # what a part of any YAML document raises
        raise ConfigError(str(error)) from error


@dataclass(frozen=True)
class _Ends:
    """The names that a link or an outage may use, and the hosts or the switch that each stands for."""

    members: Mapping[str, tuple[str, ...]]
    kinds: str

    def named(self, part: YamlPart, what: str) -> tuple[str, ...]:
        name = part.text(what)
        if name not in self.members:
            near = did_you_mean(name, self.members) or f"; there are {_listed(self.members)}"
            part.fail(f"{what} must be {self.kinds}; got {name!r}{near}")
        return self.members[name]


def _machine(root: YamlPart) -> Machine:
    entries = root.entries("a machine file", KEYS)
    if "hosts" not in entries:
        root.fail("a machine file must have a key 'hosts'")
    groups = _groups(entries["hosts"])
    hosts = tuple(host for group in groups.values() for host in group)
    members = {name: tuple(host.name for host in group) for name, group in groups.items()}
    members |= {host.name: (host.name,) for host in hosts}
    switches = _switches(entries.get("switches"), members)
    computers = _Ends(members, "a host or hosts of one name")
    ends = _Ends(members | {name: (name,) for name in switches}, "a host, hosts of one name, or a switch")
    links = [*_star(entries.get("star"), hosts), *_links(entries.get("links"), ends)]
    outages = tuple(_outages(entries.get("outages"), computers, ends, {link.name for link in links}))
    others: dict[str, Any] = {}
    if "remote_byte" in entries:
        others["remote_byte_s"] = _checked(entries["remote_byte"], seconds, "remote_byte")
    if "queue" in entries:
        others["queue_s"] = tuple(_checked(each, seconds, "queue") for each in entries["queue"].items("queue"))
    if "slowdown" in entries:
        others["slowdown"] = tuple(_real(each, "slowdown") for each in entries["slowdown"].items("slowdown"))
    if "spark" in entries:
        others["spark"] = _condition(entries["spark"], "spark")
    network = entries.get("links", entries.get("star", entries["hosts"]))
    with _located(network):
        return Machine(hosts, tuple(links), outages, switches, **others)


def _groups(part: YamlPart) -> dict[str, tuple[Host, ...]]:
    """The hosts by the name that the file gives them."""
    found: dict[str, tuple[Host, ...]] = {}
    taken: set[str] = set()
    for item in part.items("hosts"):
        entries = item.entries("host", HOST_KEYS)
        _require(item, entries, "a host", ("name", "cores"))
        with _located(item):
            group = _hosts(entries)
        name = entries["name"].text("name of a host")
        names = {name, *(host.name for host in group)}
        if HUB in names:
            item.fail(f"{HUB!r} is the switch of stars; a host must have another name")
        if names & taken:
            item.fail(f"hosts must have names of their own; got {min(names & taken)!r} twice")
        taken |= names
        found[name] = group
    with _located(part):
        check_size(sum(map(len, found.values())), sum(host.cores for group in found.values() for host in group))
    return found


def _hosts(entries: Mapping[str, YamlPart]) -> tuple[Host, ...]:
    """The hosts of one item: one of its name, or `count` of them with a number behind it."""
    name, cores = entries["name"].text("name of a host"), entries["cores"].number("cores")
    given: dict[str, Any] = {}
    if "memory_nodes" in entries:
        given["memory_nodes"] = entries["memory_nodes"].number("memory_nodes")
    if "speed" in entries:
        given["speed"] = _real(entries["speed"], "speed")
    if "energy" in entries:
        energy = entries["energy"].entries("energy", ENERGY_KEYS)
        given |= {key: _real(each, key) for key, each in energy.items()}
    if "count" not in entries:
        return (Host(name, cores, **given),)
    count = entries["count"].number("count")
    if count < 1:
        entries["count"].fail(f"count of hosts {name!r} must be at least 1; got {count}")
    check_size(count, count * cores)
    return tuple(Host(f"{name}-{number}", cores, **given) for number in range(1, count + 1))


def _switches(part: YamlPart | None, taken: Mapping[str, object]) -> tuple[str, ...]:
    found = [HUB]
    for item in part.items("switches") if part else ():
        name = item.text("name of a switch")
        if name in taken or name in found:
            item.fail(f"a switch must have a name of its own; got {name!r} twice")
        with _located(item):
            check_name(name, "a switch")
        found.append(name)
    return tuple(found)


def _star(part: YamlPart | None, hosts: Iterable[Host]) -> Iterator[Link]:
    """A link from every host to the hub, and one back."""
    if part is None:
        return
    carrying = _carrying(part, part.entries("star", STAR_KEYS), "a star")
    for host in hosts:
        for source, target in ((host.name, HUB), (HUB, host.name)):
            with _located(part):
                link = Link(source, target, **carrying)
            yield link


def _links(part: YamlPart | None, ends: _Ends) -> Iterator[Link]:
    for item in part.items("links") if part else ():
        entries = item.entries("link", LINK_KEYS)
        _require(item, entries, "a link", ("from", "to"))
        carrying = _carrying(item, entries, "a link")
        both = _condition(entries["both"], "both") if "both" in entries else True
        sources, targets = ends.named(entries["from"], "from of a link"), ends.named(entries["to"], "to of a link")
        for pair in _pairs(item, sources, targets, both=both):
            with _located(item):
                link = Link(*pair, **carrying)
            yield link


def _carrying(item: YamlPart, entries: Mapping[str, YamlPart], what: str) -> dict[str, Any]:
    """What a link carries, and how fast."""
    _require(item, entries, what, ("bandwidth",))
    found: dict[str, Any] = {"bytes_per_s": _checked(entries["bandwidth"], bandwidth, "bandwidth")}
    if "latency" in entries:
        found["latency_s"] = _checked(entries["latency"], seconds, "latency")
    return found | {key: entries[key].number(key) for key in ("segment_bytes", "overhead_bytes") if key in entries}


def _outages(part: YamlPart | None, hosts: _Ends, ends: _Ends, links: set[str]) -> Iterator[Outage]:
    for item in part.items("outages") if part else ():
        entries = item.entries("outage", OUTAGE_KEYS)
        if ("host" in entries) == ("link" in entries):
            item.fail("an outage must be either of a host or of a link")
        _require(item, entries, "an outage", ("at",))
        keys = {"at": "at_s", "until": "until_s", "announced": "announced_s"}
        times = {
            field: _checked(entries[key], seconds, f"{key} of an outage")
            for key, field in keys.items()
            if key in entries
        }
        if "link" in entries:
            names = _links_down(entries, ends, links)
        elif "both" in entries:
            entries["both"].fail("'both' is for outages of links; a host has no direction")
        else:
            names = hosts.named(entries["host"], "host of an outage")
        for name in names:
            with _located(item):
                outage = Outage(what=name, **times)
            yield outage


def _links_down(entries: Mapping[str, YamlPart], ends: _Ends, links: set[str]) -> tuple[str, ...]:
    """The links between the two ends that an outage names."""
    part = entries["link"]
    written = part.items("link of an outage")
    if len(written) != 2:
        part.fail(f"link of an outage must be its two ends, e.g. [mote-1, server]; got {part.shown}")
    both = _condition(entries["both"], "both") if "both" in entries else True
    sources, targets = (ends.named(end, "link of an outage") for end in written)
    asked = [link_name(*pair) for pair in _pairs(part, sources, targets, both=both)]
    found = tuple(name for name in asked if name in links)
    if not found or (not both and len(found) < len(asked)):
        part.fail(f"there is no link {next(name for name in asked if name not in links)}; an outage needs one")
    return found


def _pairs(
    item: YamlPart, sources: tuple[str, ...], targets: tuple[str, ...], *, both: bool
) -> Iterable[tuple[str, str]]:
    """All pairs of a source and a target, back as well if `both`; hosts of one name are not paired with themselves."""
    if len(sources) * len(targets) > MOST_PAIRS:
        item.fail(f"one item must stand for at most {MOST_PAIRS:,} links; got {len(sources) * len(targets):,}")
    several = len(sources) > 1
    onward = [(source, target) for source in sources for target in targets if source != target or not several]
    back = [(target, source) for source, target in onward] if both else []
    return dict.fromkeys((*onward, *back))


def _require(item: YamlPart, entries: Mapping[str, YamlPart], what: str, keys: Iterable[str]) -> None:
    for key in keys:
        if key not in entries:
            item.fail(f"{what} must have a key {key!r}; got {item.shown}")


@contextmanager
def _located(part: YamlPart) -> Iterator[None]:
    """Give the complaint of a constructor file and line."""
    try:
        yield
    except ConfigError as error:
        part.fail(str(error))


def _checked(part: YamlPart, read: Callable[[object, str], float], what: str) -> float:
    with _located(part):
        return read(part.data(), what)


def _real(part: YamlPart, what: str) -> float:
    value = part.data()
    if isinstance(value, bool) or not isinstance(value, int | float):
        part.fail(f"{what} must be a number; got {part.shown}")
    return float(value)


def _condition(part: YamlPart, what: str) -> bool:
    value = part.data()
    if not isinstance(value, bool):
        part.fail(f"{what} must be true or false; got {part.shown}")
    return value


def _listed(names: Iterable[str], most: int = 12) -> str:
    known = list(names)
    return ", ".join(known[:most]) + (f" and {len(known) - most:,} more" if len(known) > most else "")
