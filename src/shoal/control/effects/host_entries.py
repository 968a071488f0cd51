"""What the journal has of hosts that the twin chose, and of what their migrations have cost."""

from dataclasses import dataclass


@dataclass(frozen=True)
class HostOption:
    """A worker that an instance could go to: its score P, the predicted cost C as a share, and the benefit B.

    `mechanism` is the cheapest one for that way, which takes `seconds`; empty for staying. `wait_s`: how long until its
    host is back; 0 if it is there.
    """

    worker: int
    host: str
    score: float
    cost: float
    benefit: float
    mechanism: str
    seconds: float
    wait_s: float = 0.0


@dataclass(frozen=True)
class HostChoice:
    """An instance that goes to another host than the policy proposed, or stays; the first option is the chosen one."""

    name: str
    source: int
    proposed: int
    state_bytes: int
    options: tuple[HostOption, ...]


@dataclass(frozen=True)
class HostsMeasured:
    """What a migration between hosts has cost, beside what the twin expected; None for what was not measured.

    `frozen_s` is the longest time in which no worker processed an instance, `seconds` the longest time of a move.
    """

    at_s: float
    mechanism: str
    moved: int
    frozen_expected_s: float
    frozen_s: float | None
    seconds_expected: float
    seconds: float | None
