"""The catalog of mechanisms: each has one name, in code, on the command line and in the journal."""

from collections.abc import Mapping, Sequence

from shoal.errors import ConfigError
from shoal.mechanisms.all_at_once import AllAtOnce
from shoal.mechanisms.mechanism import Mechanism
from shoal.mechanisms.megaphone import Megaphone
from shoal.mechanisms.rhino import Rhino

MECHANISMS: Mapping[str, Mechanism] = {each.name: each for each in (Megaphone(), AllAtOnce(), Rhino())}
"""All mechanisms by name."""
DEFAULT = "megaphone"

SUMMARIES: Mapping[str, str] = {
    "megaphone": "one instance after another while the others are processed, throttled to avoid delays",
    "all-at-once": "all instances at once while their workers stop",
    "rhino": "copies state while its worker continues; then moves all instances at once, with what has changed since",
}
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
