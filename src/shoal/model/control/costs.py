"""Costs of moves: how long it takes to move an instance's state between workers, as learned so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.topology import Topology

Link = tuple[int, int]
"""The node that state leaves and the node that it goes to; both may be the same."""

BYTES_PER_S = 1e9
"""Bandwidth of a link without measurements."""
HAND_OVER_S = 0.001
"""Fixed time of a hand-over, before any has been measured."""
NEWEST = 0.2
"""Weight of the newest measurement against all earlier ones."""
LEAST_BYTE_S = 1e-12
"""Lower bound on the time per byte of a link: 1 TB/s."""


@dataclass(frozen=True)
class MeasuredMoves:
    """Completed moves: their number, the bytes of state over each link, and their total time.

    Bytes under `None` went over an unknown link.
    """

    moves: int
    link_bytes: Mapping[Link | None, float]
    seconds: float

    @classmethod
    def of(cls, event: EpochCommitted, before: Binding | None) -> "MeasuredMoves":
        """The moves of an epoch; `before`: the binding in force before it, if known.

        An epoch reports the bytes of all its moves in one sum. They are divided among links by the state of the
        instances that changed their worker, or evenly if these have none.
        """
        snapshot = event.snapshot
        topology = snapshot.topology or Topology.of(1, snapshot.binding.workers)
        link_bytes: dict[Link | None, float] = {}
        if topology.nodes == 1:
            link_bytes[0, 0] = float(event.state_bytes_moved)
            return cls(event.moves, link_bytes, event.migration_s)
        found = [] if before is None else list(before.diff(snapshot.binding))
        sizes = [load.state_bytes if (load := snapshot.loads.get(move.instance)) else 0 for move in found]
        if not any(sizes):
            sizes = [1] * len(found)
        for move, size in zip(found, sizes, strict=True):
            link = _link(topology, int(move.source), int(move.target))
            link_bytes[link] = link_bytes.get(link, 0.0) + event.state_bytes_moved * size / sum(sizes)
        return cls(event.moves, link_bytes or {None: float(event.state_bytes_moved)}, event.migration_s)


def _link(topology: Topology, source: int, target: int) -> Link | None:
    """The link between two workers; None if one of them is gone."""
    if max(source, target) >= topology.workers:
        return None
    return topology.node_of[source], topology.node_of[target]


@dataclass(frozen=True)
class LinkCosts:
    """The cost of a move: `hand_over_s`, and its bytes at the bandwidth of the link.

    `bytes_per_s` applies to links without an entry in `link_bytes_per_s`.

    >>> costs = LinkCosts(bytes_per_s=1e9, hand_over_s=0.5, link_bytes_per_s={(0, 1): 2e8})
    >>> costs.seconds(1e8, 0, 0), costs.seconds(1e8, 0, 1)
    (0.6, 1.0)
    """

    bytes_per_s: float = BYTES_PER_S
    hand_over_s: float = HAND_OVER_S
    link_bytes_per_s: Mapping[Link, float] = field(default_factory=dict)
    newest: float = NEWEST

    def __post_init__(self) -> None:
        """Reject a bandwidth that is not positive, a negative time and a weight that learns nothing."""
        for where, bandwidth in (("", self.bytes_per_s), *((f" of {k}", v) for k, v in self.link_bytes_per_s.items())):
            if not bandwidth > 0:
                raise ConfigError(f"bytes_per_s{where} must be more than 0; got {bandwidth}")
        if not self.hand_over_s >= 0:
            raise ConfigError(f"hand_over_s must be 0 or more; got {self.hand_over_s}")
        if not 0 < self.newest <= 1:
            raise ConfigError(f"newest must be more than 0 and at most 1; got {self.newest}")

    def bandwidth(self, link: Link | None) -> float:
        """Bytes per second over a link."""
        return self.bytes_per_s if link is None else self.link_bytes_per_s.get(link, self.bytes_per_s)

    def seconds(self, state_bytes: float, source: int, target: int) -> float:
        """How long it takes to move `state_bytes` from one node to another."""
        return self.hand_over_s + state_bytes / self.bandwidth((source, target))

    def expected_s(self, measured: MeasuredMoves) -> float:
        """How long these moves should have taken."""
        copying_s = (amount / self.bandwidth(link) for link, amount in measured.link_bytes.items())
        return measured.moves * self.hand_over_s + sum(copying_s)

    def bytes_within(self, seconds: float) -> int:
        """How many bytes the slowest known link can move in a time."""
        return int(seconds * min(self.link_bytes_per_s.values(), default=self.bytes_per_s))

    def learned(self, measured: MeasuredMoves) -> "LinkCosts":
        """The costs after a measurement: the expected time of these moves comes closer to the measured time.

        1. The error is the measured time less the expected time; the share `newest` of it is corrected.
        2. A measurement has one time and several unknowns: the hand-over and the bandwidth of each link. Each takes
           its part of the correction by the square of the time it would take at the initial costs (normalised least
           mean squares), so that many small moves teach the hand-over and few large ones the bandwidth.
        3. No cost becomes negative, and no link faster than a limit. The time expected never overshoots the measured.
        """
        if not measured.moves or not measured.seconds > 0:
            return self
        hand_over_s = measured.moves * HAND_OVER_S
        usual_s = {link: amount / BYTES_PER_S for link, amount in measured.link_bytes.items()}
        norm = hand_over_s**2 + sum(each**2 for each in usual_s.values())
        step = self.newest * (measured.seconds - self.expected_s(measured)) / norm
        found: dict[Link | None, float] = {}
        for link, each_s in usual_s.items():
            if each_s > 0:
                byte_s = 1 / self.bandwidth(link) + step * each_s / BYTES_PER_S
                found[link] = 1 / max(byte_s, LEAST_BYTE_S)
        return replace(
            self,
            bytes_per_s=found.pop(None, self.bytes_per_s),
            hand_over_s=max(0.0, self.hand_over_s + step * hand_over_s * HAND_OVER_S),
            link_bytes_per_s={**self.link_bytes_per_s, **{link: value for link, value in found.items() if link}},
        )
