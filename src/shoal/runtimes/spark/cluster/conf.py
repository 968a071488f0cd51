"""Settings of Spark that a user gives by name, checked before a JVM is started for them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shoal.errors import ConfigError

_SIZE = re.compile(r"[0-9]+\s*(?:b|[kmgtp]b?)?", re.IGNORECASE)
_TIME = re.compile(r"[0-9]+\s*(?:us|ms|s|m|min|h|d)?", re.IGNORECASE)


@dataclass(frozen=True)
class _Kind:
    """The values that some settings take, by their names."""

    names: re.Pattern[str]
    fits: Callable[[str], object]
    expected: str


_KINDS = (
    _Kind(
        re.compile(
            r"spark\.(?:sql\.shuffle\.partitions|default\.parallelism|task\.(?:cpus|maxFailures)|cores\.max"
            r"|(?:driver|executor)\.cores|executor\.instances|sql\.streaming\.minBatchesToRetain"
            r"|(?:driver|ui|blockManager)\.port|port\.maxRetries)"
        ),
        lambda text: text.isdecimal(),
        "a whole number, such as 4",
    ),
    _Kind(
        re.compile(r"spark\..*(?:[mM]emory|memoryOverhead|maxResultSize|maxPartitionBytes)"),
        _SIZE.fullmatch,
        "a size, such as 512m or 4g",
    ),
    _Kind(re.compile(r"spark\..*(?:[tT]imeout|[iI]nterval)"), _TIME.fullmatch, "a time, such as 30s or 500ms"),
    _Kind(
        re.compile(r"spark\..*(?:\.enabled|\.showConsoleProgress)"),
        lambda text: text.lower() in ("true", "false"),
        "true or false",
    ),
)


def check_conf(conf: Mapping[str, str]) -> None:
    """Reject names that are none of Spark's, and values that Spark would reject only after it has started."""
    for key, value in conf.items():
        if not key.startswith("spark."):
            raise ConfigError(f"a Spark setting begins with 'spark.'; got {key!r}")
        for kind in _KINDS:
            if kind.names.fullmatch(key) and not kind.fits(str(value).strip()):
                raise ConfigError(f"Spark setting {key} must be {kind.expected}; got {value!r}")
