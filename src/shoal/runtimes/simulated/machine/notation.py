"""Notations of machines: `cores:8`, `numa:2x12`, `star:5x4@1Gbit,2ms`, `spark:20x4`, or the name of a YAML file."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from shoal.errors import ConfigError, did_you_mean
from shoal.runtimes.simulated.machine.document import read_machine
from shoal.runtimes.simulated.machine.hosts import Host, Link, check_size
from shoal.runtimes.simulated.machine.machine import HUB, Machine
from shoal.runtimes.simulated.machine.quantity import bandwidth, seconds

SUFFIXES = (".yaml", ".yml")
CLUSTER_BANDWIDTH, CLUSTER_LATENCY = "10Gbit", "50us"
"""The link of an executor of `spark:...` to the switch, unless the notation says another: 10 Gigabit Ethernet."""
_COUNT = "([0-9]{1,7})"
_NETWORK = r"@([^,@]+)(?:,([^,@]+))?"


def machine_named(text: str) -> Machine:
    """The machine that a notation or a file describes.

    >>> machine_named("numa:2x12").workers, machine_named("star:5@10Mbit").links[0].bytes_per_s
    (24, 1250000.0)
    >>> machine_named("nuna:2x12")
    Traceback (most recent call last):
    shoal.errors.ConfigError: topology must be cores:N, numa:NODESxCORES, star:HOSTS[xCORES]@BANDWIDTH[,LATENCY], spark:EXECUTORSxSLOTS[@BANDWIDTH[,LATENCY]] or FILE.yaml; got 'nuna:2x12'; did you mean 'numa'?
    """  # noqa: E501  (a message is one line)
    if text.endswith(SUFFIXES):
        return read_machine(Path(text))
    kind, _, rest = text.strip().partition(":")
    if kind not in _KINDS:
        forms = ", ".join(form for form, _, _ in _KINDS.values())
        near = did_you_mean(kind, _KINDS)
        raise ConfigError(f"topology must be {forms} or FILE.yaml; got {text!r}{near}")
    form, pattern, made = _KINDS[kind]
    found = re.fullmatch(pattern, rest)
    if found is None:
        raise ConfigError(f"topology of kind {kind!r} must have the form {form}; got {text!r}")
    try:
        return made(*found.groups())
    except ConfigError as error:
        raise ConfigError(f"topology {text!r}: {error}") from error


def _cores(cores: str) -> Machine:
    return Machine((Host("host", int(cores)),))


def _numa(nodes: str, cores: str) -> Machine:
    if not int(nodes) or not int(cores):
        raise ConfigError(f"there must be a memory node, and a core on each; got {nodes} nodes of {cores} cores")
    return Machine((Host("host", int(nodes) * int(cores), memory_nodes=int(nodes)),))


def _star(hosts: str, cores: str | None, width: str, latency: str | None) -> Machine:
    return _joined("host", int(hosts), int(cores or 1), width, latency or "0s")


def _spark(executors: str, slots: str, width: str | None, latency: str | None) -> Machine:
    told = (width, latency or "0s") if width else (CLUSTER_BANDWIDTH, CLUSTER_LATENCY)
    return _joined("executor", int(executors), int(slots), *told, spark=True)


def _joined(name: str, count: int, cores: int, width: str, latency: str, *, spark: bool = False) -> Machine:
    check_size(count, count * cores)
    bytes_per_s, latency_s = bandwidth(width, "bandwidth"), seconds(latency, "latency")
    hosts = tuple(Host(f"{name}-{number}", cores) for number in range(1, count + 1))
    links = (
        Link(source, target, bytes_per_s, latency_s)
        for host in hosts
        for source, target in ((host.name, HUB), (HUB, host.name))
    )
    return Machine(hosts, tuple(links), spark=spark)


_KINDS: Mapping[str, tuple[str, str, Callable[..., Machine]]] = {
    "cores": ("cores:N", _COUNT, _cores),
    "numa": ("numa:NODESxCORES", f"{_COUNT}x{_COUNT}", _numa),
    "star": ("star:HOSTS[xCORES]@BANDWIDTH[,LATENCY]", f"{_COUNT}(?:x{_COUNT})?{_NETWORK}", _star),
    "spark": ("spark:EXECUTORSxSLOTS[@BANDWIDTH[,LATENCY]]", f"{_COUNT}x{_COUNT}(?:{_NETWORK})?", _spark),
}
"""Form, pattern and maker of every kind of notation."""
