"""Windows: how a stream is cut into finite pieces, by time, by gaps in time, or by numbers of rows.

Time windows are counted in panes: the smallest pieces all windows of one operator are made of.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from shoal.errors import GraphError
from shoal.model.query.duration import MICROSECONDS, Duration, duration_us

LARGEST_US = 1_000 * 365 * 86_400 * MICROSECONDS
"""Longest duration, a thousand years: sums of times stay within 64 bits."""
LARGEST_ROWS = 1 << 20
Clock = Literal["event", "processing"]
CLOCKS: tuple[Clock, ...] = get_args(Clock)


@dataclass(frozen=True)
class Window:
    """Windows of `size_us` every `slide_us`, aligned to the Unix epoch, start included, end excluded.

    A pane is one slide long, so the cost of an event does not depend on how many windows overlap:
    window number w (ending at w * slide) is made of the panes w - panes .. w - 1.
    `clock`: event time, or the processing time of the epoch that reads a row.
    `on`: another timestamp column (external time): a key's window is closed by the first row of that key past its end,
    with rows in the order of event time.
    """

    size_us: int
    slide_us: int
    clock: Clock = "event"
    on: str = ""

    def __post_init__(self) -> None:
        """Reject windows that panes cannot express."""
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
        if self.clock not in CLOCKS:
            raise GraphError(f"clock of a window must be {' or '.join(CLOCKS)}; got {self.clock!r}")
        if self.on and self.clock != "event":
            raise GraphError(f"window goes by column {self.on!r} or by the processing clock, not by both")

    @property
    def panes(self) -> int:
        """How many panes one window spans."""
        return self.size_us // self.slide_us

    def data(self) -> dict[str, Any]:
        """The window as plain data."""
        plain: dict[str, Any] = {"size_us": self.size_us, "slide_us": self.slide_us}
        if self.clock != "event":
            plain["clock"] = self.clock
        if self.on:
            plain["on"] = self.on
        return plain

    def __str__(self) -> str:
        """The window in words."""
        by = f" by {self.on}" if self.on else " of processing time" if self.clock == "processing" else ""
        if self.panes == 1:
            return f"tumbling {_seconds(self.size_us)}{by}"
        return f"hop {_seconds(self.size_us)} every {_seconds(self.slide_us)}{by}"


@dataclass(frozen=True)
class Session:
    """Windows per key that end after `gap_us` without input; the end is the last event plus the gap."""

    gap_us: int

    def __post_init__(self) -> None:
        """Reject a non-positive gap."""
        if not 0 < self.gap_us <= LARGEST_US:
            raise GraphError(
                f"gap of a session must be positive and at most {_seconds(LARGEST_US)}; got {_seconds(self.gap_us)}"
            )

    def data(self) -> dict[str, Any]:
        """The window as plain data."""
        return {"gap_us": self.gap_us}

    def __str__(self) -> str:
        """The window in words."""
        return f"session with gaps of {_seconds(self.gap_us)}"


@dataclass(frozen=True)
class Rows:
    """Windows of the last `size` rows of a key, every `jump` rows, in the order of event time.

    The first window is full after `size` rows; with `partial` the earlier, shorter ones are emitted, too.
    Rows of the same time are ordered by their columns.
    """

    size: int
    jump: int
    partial: bool = False

    def __post_init__(self) -> None:
        """Reject empty windows."""
        if not 1 <= self.jump <= self.size <= LARGEST_ROWS:
            raise GraphError(
                f"window of rows needs 1 <= jump <= size <= {LARGEST_ROWS}; got size {self.size}, jump {self.jump}"
            )

    def data(self) -> dict[str, Any]:
        """The window as plain data."""
        return {"rows": self.size, "jump": self.jump, **({"partial": True} if self.partial else {})}

    def __str__(self) -> str:
        """The window in words."""
        return f"{self.size} rows every {self.jump}" + (", also while filling" if self.partial else "")


AnyWindow = Window | Session | Rows


def window_from_data(data: Mapping[str, Any]) -> AnyWindow:
    """Rebuild a window from its plain form; other keys are ignored.

    >>> str(window_from_data(sessions(5).data()))
    'session with gaps of 5 s'
    """
    if "gap_us" in data:
        return Session(data["gap_us"])
    if "rows" in data:
        return Rows(data["rows"], data["jump"], data.get("partial", False))
    return Window(data["size_us"], data["slide_us"], data.get("clock", "event"), data.get("on", ""))


def hop(size_s: Duration, slide_s: Duration, *, on: str = "", clock: Clock = "event") -> Window:
    """Windows of `size_s` seconds starting every `slide_s` seconds; a text or a `timedelta` has its own unit.

    >>> str(hop(30, 1))
    'hop 30 s every 1 s'
    >>> hop("1 h", "1 min").panes
    60
    >>> hop(30, 7)
    Traceback (most recent call last):
    shoal.errors.GraphError: window size must be a multiple of its slide; got size 30 s, slide 7 s
    """
    return Window(duration_us(size_s, "window size"), duration_us(slide_s, "window slide"), clock, on)


def tumbling(size_s: Duration, *, on: str = "", clock: Clock = "event") -> Window:
    """Windows of `size_s` seconds, one after another.

    >>> tumbling(10).panes
    1
    """
    return hop(size_s, size_s, on=on, clock=clock)


def sessions(gap_s: Duration) -> Session:
    """Windows that end once a key has been quiet for `gap_s` seconds.

    >>> str(sessions(30))
    'session with gaps of 30 s'
    """
    return Session(duration_us(gap_s, "gap of a session"))


def rows(size: int, jump: int | None = None, *, partial: bool = False) -> Rows:
    """Windows of `size` rows of a key, every `jump` rows (`size` by default).

    >>> str(rows(10, 1))
    '10 rows every 1'
    """
    return Rows(size, size if jump is None else jump, partial)


def _seconds(us: int) -> str:
    return f"{us / MICROSECONDS:.6f}".rstrip("0").rstrip(".") + " s"
