"""How a simulated machine was used, in a few lines: the busiest hosts, and the links that carried most."""

from collections.abc import Mapping
from typing import Any

HOSTS_SHOWN, LINKS_SHOWN = 3, 2


def machine_lines(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and text of every line, at most six."""
    hosts = sorted(machine["hosts"], key=lambda host: -host["busy_share"])[:HOSTS_SHOWN]
    links = sorted(machine["links"], key=lambda link: -link["bytes"])[:LINKS_SHOWN]
    lines = [("machine", _totals(machine))] if machine["number_of_hosts"] > 1 else []
    lines += [(f"host {host['name']}" if lines else "machine", _used(host)) for host in hosts]
    return lines + [("link", f"{link['name']}: {_size(link['bytes'])}") for link in links if link["bytes"]]


def _totals(machine: Mapping[str, Any]) -> str:
    failed = sum(host["failed"] for host in machine["hosts"])
    text = f"{machine['number_of_hosts']:,} hosts, {machine['number_of_links']:,} links"
    text += f", {machine['joules']:,.3g} J" if machine["joules"] else ""
    return text + (f"; {failed:,} failed" if failed else "") + "; most used:"


def _used(host: Mapping[str, Any]) -> str:
    cores = f"{host['cores']} core{'s' * (host['cores'] > 1)}"
    text = f"{cores} busy for {host['busy_share']:.0%} of the time"
    if host["bytes_sent"] or host["bytes_received"]:
        text += f", sent {_size(host['bytes_sent'])}, received {_size(host['bytes_received'])}"
    text += f", {host['joules']:,.3g} J" if host["joules"] else ""
    if host["battery_left_j"] is not None:
        text += f", {host['battery_left_j']:,.3g} J left"
    return text + (", failed" if host["failed"] else "")


def _size(number: float) -> str:
    """Bytes with a unit.

    >>> _size(999), _size(1_540_000)
    ('999 B', '1.5 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:.0f} B"
