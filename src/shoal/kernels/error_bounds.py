"""Bounds on the error of results after state was lost: how many of them, and how far off."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ErrorBound:
    """At most how much: `most`, or None if there is no bound, for a reason."""

    most: float | None
    reason: str = ""

    def __post_init__(self) -> None:
        """Reject a missing bound without a reason."""
        if self.most is None and not self.reason:
            raise ValueError("an error bound must have a number or a reason why there is none; got neither")


@dataclass(frozen=True)
class ErrorBounds:
    """Bounds on the results of a kernel after it lost state.

    `results`: how many results of an undisturbed run are missing or different. `columns`: by the name of a numeric
    result column, how far the value of any result is off. A result whose rows were all lost is missing, and not off.
    """

    results: ErrorBound
    columns: Mapping[str, ErrorBound] = field(default_factory=dict)


NONE_LOST = ErrorBounds(ErrorBound(0.0))


def unbounded(reason: str) -> ErrorBounds:
    """Bounds where there are none."""
    return ErrorBounds(ErrorBound(None, reason))
