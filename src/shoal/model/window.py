"""Event-time windows, counted in panes: the smallest pieces all windows of one operator are made of."""

import math
from dataclasses import dataclass

from shoal.errors import GraphError

MICROSECONDS = 1_000_000
LARGEST_US = 1_000 * 365 * 86_400 * MICROSECONDS
"""Longest span of time there is, a thousand years: sums of times stay within 64 bits."""


@dataclass(frozen=True)
class Window:
    """Windows of `size_us` every `slide_us`, aligned to the Unix epoch, start included, end excluded.

    A pane is one slide long, so an event costs the same however often windows overlap:
    window number w (ending at w * slide) is made of the panes w - panes .. w - 1.
    """

    size_us: int
    slide_us: int

    def __post_init__(self) -> None:
        """Refuse windows that panes cannot express."""
        if self.slide_us <= 0 or self.size_us <= 0:
            raise GraphError(
                "window size and slide must be positive; "
                f"got size {_seconds(self.size_us)}, slide {_seconds(self.slide_us)}"
            )
        if self.size_us > LARGEST_US:
            raise GraphError(f"window size must be at most {_seconds(LARGEST_US)}; got {_seconds(self.size_us)}")
        if self.size_us % self.slide_us:
            raise GraphError(
                "window size must be a multiple of its slide; "
                f"got size {_seconds(self.size_us)}, slide {_seconds(self.slide_us)}"
            )

    @property
    def panes(self) -> int:
        """How many panes one window spans."""
        return self.size_us // self.slide_us

    def __str__(self) -> str:
        """The window as a person would say it."""
        if self.panes == 1:
            return f"tumbling {_seconds(self.size_us)}"
        return f"hop {_seconds(self.size_us)} every {_seconds(self.slide_us)}"


def hop(size_s: float, slide_s: float) -> Window:
    """Windows of `size_s` seconds starting every `slide_s` seconds.

    >>> str(hop(30, 1))
    'hop 30 s every 1 s'
    >>> hop(30, 7)
    Traceback (most recent call last):
    shoal.errors.GraphError: window size must be a multiple of its slide; got size 30 s, slide 7 s
    """
    if not (math.isfinite(size_s) and math.isfinite(slide_s)):
        raise GraphError(f"window size and slide must be numbers of seconds; got size {size_s}, slide {slide_s}")
    return Window(round(size_s * MICROSECONDS), round(slide_s * MICROSECONDS))


def tumbling(size_s: float) -> Window:
    """Windows of `size_s` seconds, one after another.

    >>> tumbling(10).panes
    1
    """
    return hop(size_s, size_s)


def _seconds(us: int) -> str:
    return f"{us / MICROSECONDS:.6f}".rstrip("0").rstrip(".") + " s"
