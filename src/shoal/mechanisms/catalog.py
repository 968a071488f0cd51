"""The catalog of mechanisms: each has one name, in code, on the command line and in the journal."""

from collections.abc import Mapping, Sequence

from shoal.errors import ConfigError
from shoal.mechanisms.all_at_once import AllAtOnce
from shoal.mechanisms.checkpoint_assisted import CheckpointAssisted
from shoal.mechanisms.drop import Drop
from shoal.mechanisms.lazy_latency import LazyLatency
from shoal.mechanisms.lazy_utility import LazyUtility
from shoal.mechanisms.meces import Meces
from shoal.mechanisms.mechanism import Mechanism
from shoal.mechanisms.megaphone import Megaphone
from shoal.mechanisms.parallel_track import StateRecreation, WindowRecreation
from shoal.mechanisms.rhino import Rhino
from shoal.mechanisms.shedding.selection import selection_named
from shoal.model.control.messages import MoveLimit

MECHANISMS: Mapping[str, Mechanism] = {
    each.name: each
    for each in (
        Megaphone(),
        AllAtOnce(),
        Rhino(),
        Meces(),
        LazyLatency(),
        LazyUtility(),
        WindowRecreation(),
        StateRecreation(),
        CheckpointAssisted(),
        Drop(),
    )
}
"""All mechanisms by name."""
DEFAULT = "megaphone"
LOSSY = frozenset({"drop"})
"""Mechanisms that lose state, as their reports say; all others lose some only if they are interrupted."""

SHEDDING = "lazy-utility"
"""The mechanism that chooses which state to send if there is no time for all of it."""

SUMMARIES: Mapping[str, str] = {name: each.summary for name, each in MECHANISMS.items()}
"""One line about every mechanism."""

RENAMED: Mapping[str, str] = {
    "gradual": "megaphone",
    "non-blocking": "megaphone",
    "lazy": "all-at-once",
    "blocking": "all-at-once",
    "pre-copy": "rhino",
}
"""Former names of mechanisms."""


def mechanism_named(name: str | None, supported: Sequence[str] = tuple(MECHANISMS), where: str = "") -> Mechanism:
    """The mechanism with a name, or the default; an unknown or unsupported name is rejected.

    >>> mechanism_named("rhino").name
    'rhino'
    >>> mechanism_named("lazy")
    Traceback (most recent call last):
    shoal.errors.ConfigError: mechanism 'lazy' is now named all-at-once
    """
    chosen = DEFAULT if name is None else name
    if chosen in RENAMED:
        raise ConfigError(f"mechanism {chosen!r} is now named {RENAMED[chosen]}")
    known = ", ".join(supported) or "none"
    if chosen not in MECHANISMS:
        raise ConfigError(f"mechanism must be one of {known}; got {chosen!r}")
    if chosen not in supported:
        raise ConfigError(f"mechanism {chosen} does not run on {where}; there are {known}")
    return MECHANISMS[chosen]


def mechanism_with(name: str, selection: str) -> Mechanism:
    """The mechanism with a name, which chooses state by a selection if it chooses any."""
    return LazyUtility(selection_named(selection)) if name == SHEDDING else MECHANISMS[name]


def check_limit(limit: MoveLimit | None, mechanism: str) -> None:
    """Reject a move that would drop state without choosing it."""
    if limit is not None and limit.drops and mechanism != SHEDDING:
        raise ConfigError(
            f"a move with a deadline or a capacity is by {SHEDDING}, which chooses the state to send; "
            f"got mechanism {mechanism}"
        )


def refuse_limit(limit: MoveLimit | None, where: str) -> None:
    """Reject a move that would drop state; called by runtimes that move all state, however long it takes."""
    if limit is not None and limit.drops:
        what = "a deadline" if limit.capacity_bytes is None else "a capacity"
        raise ConfigError(
            f"{where} moves all state, however long it takes; got a move with {what}, "
            f"which runs on local, and on simulated with detail=rows"
        )
