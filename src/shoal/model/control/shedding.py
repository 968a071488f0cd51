"""Shedding of input: what a user asks for, and the ranges of event time in which rows are shed.

A row is shed or kept by its stream, its position in the source, its event time and its values alone. So a replay sheds
the same rows, and so does every other runtime that reads the same batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from shoal.errors import ConfigError

SheddingKind = Literal["random", "utility", "windows"]
SHEDDING_KINDS: tuple[SheddingKind, ...] = get_args(SheddingKind)
SheddingTime = Literal["overload", "always"]
SHEDDING_TIMES: tuple[SheddingTime, ...] = get_args(SheddingTime)
BEGINNING_US, END_US = -(1 << 62), 1 << 62
"""Before and after every event time."""
MOST_RANGES = 200
"""Ranges that are kept of a stream; beyond that the two oldest become one that was sampled in part."""


@dataclass(frozen=True)
class Shedding:
    """What may be shed of the input of a run: up to `share` of the rows, `always` or while the run is overloaded.

    `random`: every row with the same probability. `utility`: of every batch, the rows with the least `utility`, which
    is a column or an SQL expression. `windows`: all rows of some windows, so that the others are exact. A run is
    overloaded while its latency or its backlog is over `above_s`. `intervals`: let queries also compute what intervals
    of their sums and means need, in more columns of their tables.

    >>> Shedding.of("utility:price:0.25")
    Shedding(kind='utility', share=0.25, utility='price', when='overload', above_s=5.0, seed=0, intervals=False)
    """

    kind: SheddingKind
    share: float
    utility: str = ""
    when: SheddingTime = "overload"
    above_s: float = 5.0
    seed: int = 0
    intervals: bool = False

    def __post_init__(self) -> None:
        """Reject unknown names and shares that are none."""
        if self.kind not in SHEDDING_KINDS:
            raise ConfigError(f"shedding must be one of {', '.join(SHEDDING_KINDS)}; got {self.kind!r}")
        if not 0 < self.share < 1:
            raise ConfigError(f"share of rows to shed must be more than 0 and less than 1; got {self.share:g}")
        if (self.kind == "utility") != bool(self.utility):
            hint = "name a column, e.g. utility:price:0.2" if self.kind == "utility" else "leave it out"
            raise ConfigError(f"shedding by {self.kind} got utility {self.utility!r}; {hint}")
        if self.when not in SHEDDING_TIMES:
            raise ConfigError(f"shedding must be when {' or '.join(SHEDDING_TIMES)}; got {self.when!r}")
        if not 0 < self.above_s < float("inf"):
            raise ConfigError(f"latency above which input is shed must be more than 0 s; got {self.above_s:g} s")
        if self.intervals and self.kind != "random":
            raise ConfigError(f"intervals are for shedding at random; got {self.kind}")

    @classmethod
    def of(
        cls,
        text: str,
        when: SheddingTime = "overload",
        above_s: float = 5.0,
        seed: int = 0,
        *,
        intervals: bool = False,
    ) -> "Shedding":
        """The shedding of a text: random:SHARE, utility:EXPRESSION:SHARE or windows:SHARE."""
        kind, _, rest = text.partition(":")
        utility, _, number = rest.rpartition(":")
        if kind not in SHEDDING_KINDS or (kind != "utility" and utility):
            raise ConfigError(f"shed must be random:SHARE, utility:EXPRESSION:SHARE or windows:SHARE; got {text!r}")
        try:
            share = float(number)
        except ValueError:
            raise ConfigError(f"shed must end in a share of the rows, e.g. {kind}:0.2; got {text!r}") from None
        return cls(kind, share, utility, when, above_s, seed, intervals)

    @property
    def text(self) -> str:
        """The text that `of` takes."""
        return ":".join(filter(None, (self.kind, self.utility, f"{self.share:g}")))


@dataclass(frozen=True)
class ShedRule:
    """Which rows of one stream are shed; `utility`: an expression as JSON, `span_us`: the length of windows."""

    kind: str
    share: float
    seed: int = 0
    utility: str = ""
    span_us: int = 0


@dataclass(frozen=True)
class ShedRange:
    """Event times from `start_us` to before `end_us` in which a rule was in force; `whole`: in all of it."""

    start_us: int
    end_us: int
    rule: ShedRule
    whole: bool = True


@dataclass(frozen=True)
class StreamShedding:
    """The rule of a stream, if rows of it may be shed now, and the ranges of event time in which some were.

    A range begins after the newest event time read so far and ends after it, so that whether a row is in one does not
    depend on when it is read. Those of whole windows begin and end where windows do.
    """

    rule: ShedRule | None = None
    newest_us: int = BEGINNING_US
    ranges: tuple[ShedRange, ...] = ()

    @property
    def active(self) -> bool:
        """Whether rows that are still to come are shed."""
        return bool(self.ranges) and self.ranges[-1].end_us == END_US

    def read(self, newest_us: int) -> "StreamShedding":
        """The same after rows up to an event time were read."""
        return self if newest_us <= self.newest_us else replace(self, newest_us=newest_us)

    def switched(self, *, active: bool) -> "StreamShedding":
        """The same with shedding switched on or off for the rows that are still to come."""
        if active == self.active or (active and self.rule is None):
            return self
        return self._begun(self.rule) if active and self.rule is not None else self._ended()

    def asked(self, rule: ShedRule | None, *, always: bool) -> "StreamShedding":
        """The same for a run that asks for a rule, or for none; ranges of other rules end."""
        now = self
        if now.active and now.ranges[-1].rule != rule:
            now = now._ended()
        if now.rule != rule:
            now = replace(now, rule=rule)
        return now.switched(active=True) if always else now

    def _begun(self, rule: ShedRule) -> "StreamShedding":
        start_us = self._next_us(rule)
        last = self.ranges[-1] if self.ranges else None
        if last is not None and last.end_us == start_us and last.rule == rule:
            return replace(self, ranges=(*self.ranges[:-1], replace(last, end_us=END_US)))
        return replace(self, ranges=_limited((*self.ranges, ShedRange(start_us, END_US, rule))))

    def _ended(self) -> "StreamShedding":
        *before, last = self.ranges
        end_us = self._next_us(last.rule)
        if end_us <= last.start_us:
            return replace(self, ranges=tuple(before))
        return replace(self, ranges=(*before, replace(last, end_us=end_us)))

    def _next_us(self, rule: ShedRule) -> int:
        """The first event time of which no row was read, and where a window begins if windows are shed."""
        if self.newest_us == BEGINNING_US:
            return BEGINNING_US
        return (self.newest_us // rule.span_us + 1) * rule.span_us if rule.span_us else self.newest_us + 1


def _limited(ranges: tuple[ShedRange, ...]) -> tuple[ShedRange, ...]:
    """The ranges, the two oldest merged if they are too many."""
    if len(ranges) <= MOST_RANGES:
        return ranges
    first, second = ranges[:2]
    return (replace(first, end_us=second.end_us, whole=False), *ranges[2:])


@dataclass(frozen=True)
class ShedCount:
    """Rows that were shed, and the utility of those and of all rows among which they were chosen.

    `oldest_us` is the first event time among them.
    """

    rows: int = 0
    utility: float = 0.0
    utility_read: float = 0.0
    oldest_us: int = END_US

    def __add__(self, other: "ShedCount") -> "ShedCount":
        """The sums."""
        utility, read = self.utility + other.utility, self.utility_read + other.utility_read
        return ShedCount(self.rows + other.rows, utility, read, min(self.oldest_us, other.oldest_us))

    def since(self, before: "ShedCount") -> "ShedCount":
        """What was shed after an earlier count."""
        return self + ShedCount(-before.rows, -before.utility, -before.utility_read)


NO_SHEDDING: Mapping[str, StreamShedding] = {}
NOTHING_SHED: Mapping[str, ShedCount] = {}


def added(counts: Mapping[str, ShedCount], more: Sequence[tuple[str, ShedCount]]) -> dict[str, ShedCount]:
    """Counts by stream with some more; streams without shed rows are left out."""
    total = dict(counts)
    for stream, count in more:
        if count.rows or count.utility_read:
            total[stream] = total.get(stream, ShedCount()) + count
    return total


def sampled(ranges: Sequence[ShedRange], start_us: int, end_us: int) -> tuple[float, float] | None:
    """The least and the largest share of rows that was shed at random at any time from `start_us` to before `end_us`.

    None if rows were also shed in another way.

    >>> ranges = (ShedRange(10, 20, ShedRule("random", 0.5)),)
    >>> sampled(ranges, 0, 10), sampled(ranges, 12, 18), sampled(ranges, 5, 15)
    ((0.0, 0.0), (0.5, 0.5), (0.0, 0.5))
    """
    found = [each for each in ranges if each.start_us < end_us and start_us < each.end_us]
    if any(each.rule.kind != "random" for each in found):
        return None
    most = max((each.rule.share for each in found), default=0.0)
    inside = bool(found) and found[0].whole and found[0].start_us <= start_us and end_us <= found[0].end_us
    return (most if inside else 0.0), most
