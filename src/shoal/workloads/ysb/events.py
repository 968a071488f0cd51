"""Ad events of the `ysb` workload, the Yahoo! Streaming Benchmark: eight 64-bit numbers per event.

An event is a function of its index alone, so a source can be split, replayed and resumed at any index.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.connectors.sources.rate import steps_of
from shoal.errors import ConfigError
from shoal.kernels.compiled import compiled
from shoal.workloads.limits import PER_S, SEED, START_US, check_limits, check_slice
from shoal.workloads.scatter import below, mix

Ints = npt.NDArray[np.int64]

MICROSECONDS = 1_000_000
VIEW = 0
"""The event type that is counted; the two others are clicks and purchases."""
EVENT_TYPES = 3
A_THIRD = "1/3"
AD_TYPES = 5
PEOPLE = 1_000_000
PAGES = 100_000
NAMES = ("user_id", "page_id", "ad_id", "ad_type", "event_type", "event_time", "ip", "spare")
SCHEMA = pa.schema([(name, pa.timestamp("us") if name == "event_time" else pa.int64()) for name in NAMES])
LIMITS = {
    "ads": (1, 1_000_000),
    "campaigns": (1, 1_000_000),
    "per_s": PER_S,
    "seed": SEED,
    "start_us": START_US,
}


@dataclass(frozen=True)
class YsbEvents:
    """An endless stream of ad events, `per_s` for every second of event time, a third of them views.

    `views` may name another share, also one that changes with event time: `"0.1,0.9@60"` is a tenth, and nine tenths
    from second 60 on.

    >>> events = YsbEvents()
    >>> events.batch(0, 9)["event_type"].to_pylist()
    [0, 2, 2, 0, 1, 1, 2, 0, 2]
    >>> events.batch(5, 9) == events.batch(0, 9).slice(5)
    True
    """

    ads: int = 1000
    campaigns: int = 100
    per_s: int = 1_000_000
    seed: int = 0
    start_us: int = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z
    views: str = A_THIRD

    def __post_init__(self) -> None:
        """Reject settings beyond their limits."""
        check_limits("ysb", self, LIMITS)
        moments = [moment for moment, _ in self.shares]
        shares_fit = all(0 <= share <= 1 for _, share in self.shares)
        if not moments or moments[0] != 0 or moments != sorted(set(moments)) or not shares_fit:
            raise ConfigError(
                f"ysb views must be a share from 0 to 1, or steps like 0.1,0.9@60 (0.9 after 60 s); got {self.views!r}"
            )

    @cached_property
    def shares(self) -> tuple[tuple[float, float], ...]:
        """Seconds of event time, and the share of views from then on."""
        return ((0.0, 1 / EVENT_TYPES),) if self.views == A_THIRD else steps_of(self.views) or ()

    @property
    def concurrent(self) -> bool:
        """Threads may make events at the same time: nothing is kept between calls."""
        return True

    @staticmethod
    def schema() -> pa.Schema:
        """Columns of every batch.

        >>> YsbEvents.schema().names
        ['user_id', 'page_id', 'ad_id', 'ad_type', 'event_type', 'event_time', 'ip', 'spare']
        """
        return SCHEMA

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number `start` to `stop` - 1; a pure function of its arguments."""
        columns = self.columns(start, stop).values()
        arrays = [pa.array(column).view(field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def columns(self, start: int, stop: int) -> dict[str, Ints]:
        """The same events as plain arrays, times in microseconds."""
        check_slice("ysb", start, stop)
        columns = tuple(np.empty(stop - start, np.int64) for _ in NAMES)
        _fill(columns, start, np.uint64(self.seed), self.ads, self.per_s, self.start_us)
        if self.views != A_THIRD:
            moments = np.array([self.start_us + round(moment * MICROSECONDS) for moment, _ in self.shares])
            limits = np.array([share * 2.0**32 for _, share in self.shares])
            _choose_views(columns, np.uint64(self.seed), moments, limits)
        return dict(zip(NAMES, columns, strict=True))

    def campaign_of_ad(self) -> dict[int, int]:
        """The static table that events are joined with.

        >>> list(YsbEvents(ads=4, campaigns=2).campaign_of_ad().items())
        [(0, 0), (1, 1), (2, 0), (3, 1)]
        """
        return {ad: ad % self.campaigns for ad in range(self.ads)}


@compiled
def _fill(columns: tuple[Ints, ...], start: int, seed: np.uint64, ads: int, per_s: int, start_us: int) -> None:
    """Fill the columns with the events from number `start` on."""
    user_id, page_id, ad_id, ad_type, event_type, event_time, ip, spare = columns
    stream = mix(seed)
    for n in range(event_time.size):
        first = mix(stream ^ np.uint64(start + n))
        other = mix(first)
        event_type[n] = below(EVENT_TYPES, first)
        ad_id[n] = below(ads, first >> np.uint64(32))
        ad_type[n] = ad_id[n] % AD_TYPES
        user_id[n] = below(PEOPLE, other)
        page_id[n] = below(PAGES, other >> np.uint64(32))
        event_time[n] = start_us + (start + n) * MICROSECONDS // per_s
        ip[n] = np.int64(other & np.uint64(0xFFFFFFFF))
        spare[n] = start + n


@compiled
def _choose_views(columns: tuple[Ints, ...], seed: np.uint64, moments: Ints, limits: npt.NDArray[np.float64]) -> None:
    """Make a share of the events views; the share changes at given moments."""
    event_type, event_time, spare = columns[4], columns[5], columns[7]
    stream = mix(mix(seed))
    for n in range(event_time.size):
        step = np.searchsorted(moments, event_time[n], side="right") - 1
        drawn = mix(stream ^ np.uint64(spare[n]))
        viewed = np.float64(drawn & np.uint64(0xFFFFFFFF)) < limits[step]
        event_type[n] = VIEW if viewed else 1 + np.int64(drawn >> np.uint64(63))
