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
