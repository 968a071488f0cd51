"""What a machine consists of: hosts, links between them, and times at which one of these is down."""

import math
import re
from dataclasses import dataclass

from shoal.errors import ConfigError

MOST_HOSTS, MOST_CORES = 100_000, 1_000_000
"""Hosts and cores of one machine; more is taken for a mistake."""
MOST_LATENCY_S = 3600.0
_NAME = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True)
class Host:
    """A computer: its cores are workers, spread over its memory nodes in order.

    `speed`: work done per second, relative to the machine on which costs were measured. `busy_w` is the power of one
    core at work, `idle_w` that of one which waits; `byte_j` the energy to send or receive a byte. When `battery_j`
    joules are used up, the host fails.
    """

    name: str
    cores: int
    memory_nodes: int = 1
    speed: float = 1.0
    busy_w: float = 0.0
    idle_w: float = 0.0
    byte_j: float = 0.0
    battery_j: float = math.inf

    def __post_init__(self) -> None:
        """Reject what no computer has."""
        check_name(self.name, "a host")
        subject = f"of host {self.name!r}"
        if not 1 <= self.cores <= MOST_CORES:
            raise ConfigError(f"cores {subject} must be from 1 to {MOST_CORES:,}; got {self.cores}")
        if not 1 <= self.memory_nodes <= self.cores:
            raise ConfigError(
                f"memory_nodes {subject} must be from 1 to its number of cores, {self.cores}; got {self.memory_nodes}"
            )
        if not 0 < self.speed < math.inf:
            raise ConfigError(f"speed {subject} must be above 0 and finite; got {self.speed:g}")
        for what in ("busy_w", "idle_w", "byte_j"):
            check_amount(getattr(self, what), f"{what} {subject}")
        if not self.battery_j > 0:
            raise ConfigError(f"battery_j {subject} must be above 0, or infinite; got {self.battery_j:g}")

    @property
    def node_of(self) -> tuple[int, ...]:
        """The memory node of each core; if they do not divide, the first nodes have one core more."""
        each, more = divmod(self.cores, self.memory_nodes)
        return tuple(node for node in range(self.memory_nodes) for _ in range(each + (node < more)))


@dataclass(frozen=True)
class Link:
    """A way for bytes from one end to the other, not back. Ends are hosts or switches.

    Bytes travel in segments: every `segment_bytes`, begun or full, bring `overhead_bytes` of headers with them. The
    defaults are those of TCP over Ethernet.
    """

    source: str
    target: str
    bytes_per_s: float
    latency_s: float = 0.0
    segment_bytes: int = 1460
    overhead_bytes: int = 40

    def __post_init__(self) -> None:
        """Reject what carries nothing."""
        subject = f"of link {self.name}"
        if self.source == self.target:
            raise ConfigError(f"a link must have two ends; got {self.source!r} twice")
        if not 0 < self.bytes_per_s < math.inf:
            raise ConfigError(
                f"bandwidth {subject} must be above 0 and finite; got {self.bytes_per_s:g} bytes per second"
            )
        if not 0 <= self.latency_s <= MOST_LATENCY_S:
            raise ConfigError(f"latency {subject} must be from 0 to {MOST_LATENCY_S:g} s; got {self.latency_s:g} s")
        if self.segment_bytes < 1 or self.overhead_bytes < 0:
            raise ConfigError(
                f"segments {subject} must have at least 1 byte, and 0 bytes or more of overhead; "
                f"got {self.segment_bytes} and {self.overhead_bytes}"
            )

    @property
    def name(self) -> str:
        """The name that an outage uses.

        >>> Link("mote", "server", 1000.0).name
        'mote->server'
        """
        return link_name(self.source, self.target)


@dataclass(frozen=True)
class Outage:
    """A time in which a link or a host is down. `what` is the name of a host, or of a link as `Link.name` has it.

    A link that is down carries nothing; what waits for it goes on later. A host that fails loses its workers and what
    they hold in memory; it has them again, empty, at `until_s`. A controller knows it `announced_s` before it begins;
    0: it comes as a surprise.
    """

    at_s: float
    what: str
    until_s: float = math.inf
    announced_s: float = 0.0

    def __post_init__(self) -> None:
        """Reject a time that does not pass."""
        if not 0 <= self.at_s < math.inf:
            raise ConfigError(f"outage of {self.what!r} must begin at 0 s or later; got {self.at_s:g} s")
        if not self.until_s > self.at_s:
            raise ConfigError(
                f"outage of {self.what!r} must end after it begins; got from {self.at_s:g} s until {self.until_s:g} s"
            )
        if not self.announced_s >= 0:
            raise ConfigError(
                f"outage of {self.what!r} must be announced 0 s or more before it begins; got {self.announced_s:g} s"
            )


def check_size(hosts: int, cores: int) -> None:
    """Reject a machine without hosts, and one that is too large to be simulated."""
    if not hosts:
        raise ConfigError("a machine must have at least one host; got none")
    if hosts > MOST_HOSTS or cores > MOST_CORES:
        raise ConfigError(
            f"a machine must have at most {MOST_HOSTS:,} hosts and {MOST_CORES:,} cores; "
            f"got {hosts:,} hosts with {cores:,} cores"
        )


def link_name(source: str, target: str) -> str:
    """The name of the link from one end to another."""
    return f"{source}->{target}"


def check_name(name: str, what: str) -> None:
    """Reject a name that could be taken for something else."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"name of {what} must consist of letters, digits, '_', '-' and '.'; got {name!r}")


def check_amount(value: float, what: str) -> None:
    """Reject what is negative, infinite or no number."""
    if not 0 <= value < math.inf:
        raise ConfigError(f"{what} must be 0 or more, and finite; got {value:g}")
