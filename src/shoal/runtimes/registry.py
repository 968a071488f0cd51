"""The registry of runtimes: names and import paths; a runtime is imported when it is first used."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

from shoal.errors import ConfigError
from shoal.runtimes.protocol import Capabilities, RuntimeKind

RUNTIMES: Mapping[str, str] = {
    "spark": "shoal.runtimes.spark.launch:SPARK",
    "local": "shoal.runtimes.local.launch:LOCAL",
    "reference": "shoal.runtimes.reference:REFERENCE",
    "simulated": "shoal.runtimes.simulated.launch:SIMULATED",
}
"""Module and name of every `RuntimeKind`."""


@cache
def runtime_kind(name: str) -> RuntimeKind:
    """The kind of runtime with this name.

    >>> runtime_kind("local").capabilities.keeps_checkpoint
    False
    """
    if name not in RUNTIMES:
        raise ConfigError(f"runtime must be one of {', '.join(RUNTIMES)}; got {name!r}")
    module, _, attribute = RUNTIMES[name].partition(":")
    kind = getattr(import_module(module), attribute)
    if not isinstance(kind, RuntimeKind) or kind.capabilities.name != name:
        raise TypeError(f"{RUNTIMES[name]} must be the kind of runtime {name!r}; got {kind!r}")
    return kind


def kinds() -> list[RuntimeKind]:
    """Every kind of runtime."""
    return [runtime_kind(name) for name in RUNTIMES]


def runtimes_that(can: Callable[[Capabilities], object]) -> str:
    """The names of the runtimes that can do something, for messages.

    >>> runtimes_that(lambda can: can.keeps_checkpoint)
    'spark'
    """
    return " or ".join(kind.capabilities.name for kind in kinds() if can(kind.capabilities)) or "no runtime"


def option_values(option: str) -> list[str]:
    """The values of a command-line option over all runtimes, in the order of declaration."""
    return list(dict.fromkeys(value for kind in kinds() for value in kind.capabilities.options.get(option, ())))
