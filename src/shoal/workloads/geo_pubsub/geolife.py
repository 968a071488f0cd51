"""Points that people really visited, in place of generated ones: a CSV file of GPS positions, as GeoLife has them.

The columns are `lat`, `lng`, `datetime` and `uid`. Subscriptions are the places with the most points, each a square.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from shoal.errors import ConfigError, SourceError
from shoal.workloads.geo_pubsub.feed import FIRST, POINTS, GeoFeed
from shoal.workloads.geo_pubsub.points import SCHEMA as POINT_SCHEMA
from shoal.workloads.geo_pubsub.subscriptions import ACTIONS
from shoal.workloads.geo_pubsub.subscriptions import SCHEMA as SUBSCRIPTION_SCHEMA
from shoal.workloads.limits import check_slice

TYPES = {"lat": pa.float64(), "lng": pa.float64(), "datetime": pa.timestamp("us"), "uid": pa.int64()}
PER_DEGREE = 200
"""Places are counted by squares of this many to a degree, half a kilometre high."""
REACH = 0.75
"""Half of the side of a subscription in such squares: neighbours overlap."""
HOURS = 24
MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class GeolifePoints:
    """The points of a file in the order of their times; the value of a point is the hour of the day."""

    path: str

    @property
    def number(self) -> int:
        """How many points the file has."""
        return visited(self.path).num_rows

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Points number `start` to `stop` - 1."""
        check_slice("geo-pubsub", start, stop)
        return visited(self.path).slice(start, stop - start)

    def index_at(self, seconds: float) -> int:
        """The number of points before this offset of event time from the first."""
        times = _times(self.path)
        return int(np.searchsorted(times, times[0] + round(seconds * MICROSECONDS)))

    def seconds_at(self, index: int) -> float:
        """The offset of event time of a point from the first; behind the last, that of the last."""
        times = _times(self.path)
        return float(times[min(index, times.size - 1)] - times[0]) / MICROSECONDS


@dataclass(frozen=True)
class GeolifePlaces:
    """Subscriptions to the places of a file that have the most points, from the first point on.

    Place n, counted from the one with the most points, wants visits from hour n modulo 24 of the day on.
    """

    path: str
    places: int

    def __post_init__(self) -> None:
        """Reject a number below 1."""
        if self.places < 1:
            raise ConfigError(f"geo-pubsub places must be at least 1; got {self.places}")

    @property
    def number(self) -> int:
        """How many there are: all places, if there are not as many as wanted."""
        return _most_visited(self.path, self.places).shape[1]

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Subscriptions number `start` to `stop` - 1."""
        check_slice("geo-pubsub", start, stop)
        x, y = _most_visited(self.path, self.places)[:, start:stop] + 0.5
        n = np.arange(start, start + x.size)
        box = [(value + reach) / PER_DEGREE for reach in (-REACH, REACH) for value in (x, y)]
        ts = pa.array(np.full(x.size, _times(self.path)[0])).view(pa.timestamp("us"))
        inserts = pa.DictionaryArray.from_arrays(np.zeros(x.size, np.int8), pa.array(ACTIONS))
        columns = [ts, pa.array(n), inserts, *(pa.array(border) for border in box), pa.array(n % HOURS)]
        return pa.RecordBatch.from_arrays(columns, schema=SUBSCRIPTION_SCHEMA)

    def index_at(self, seconds: float) -> int:
        """The number of subscriptions before this offset of event time: all of them are there at once."""
        return self.number if seconds > 0 else 0

    def seconds_at(self, index: int) -> float:  # noqa: ARG002  (of the protocol)
        """The offset of event time of a subscription from the start."""
        return 0.0


def geolife(path: str, number: int, places: int) -> GeoFeed:
    """The first points of a file, at most a number of them, and the places that all of its points visit the most."""
    points, subscriptions = GeolifePoints(path), GeolifePlaces(path, places)
    rows = {POINTS: min(number, points.number), FIRST: subscriptions.number}
    x, y = (visited(path)[name].to_numpy() for name in ("x", "y"))
    margin = 1 / PER_DEGREE
    space = (float(x.min()) - margin, float(y.min()) - margin, float(x.max()) + margin, float(y.max()) + margin)
    return GeoFeed(space, {POINTS: points, FIRST: subscriptions}, rows)


@lru_cache(maxsize=2)
def visited(path: str) -> pa.RecordBatch:
    """The points of a file, by their times."""
    try:
        rows = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=TYPES, include_columns=list(TYPES)))
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        raise SourceError(
            f"geo-pubsub points must be a CSV file with the columns {', '.join(TYPES)}; cannot read {path!r}: {error}"
        ) from error
    if not rows.num_rows or any(column.null_count for column in rows.columns):
        raise SourceError(
            f"geo-pubsub points must be at least one, without nulls; got {rows.num_rows} rows in {path!r}"
        )
    rows = rows.sort_by([("datetime", "ascending"), ("uid", "ascending")]).combine_chunks()
    number, hour = pa.array(np.arange(rows.num_rows)), pc.hour(rows["datetime"]).combine_chunks()
    ts, x, y = (rows[name].combine_chunks() for name in ("datetime", "lng", "lat"))
    return pa.RecordBatch.from_arrays([ts, number, x, y, hour], schema=POINT_SCHEMA)


def _times(path: str) -> npt.NDArray[np.int64]:
    times: npt.NDArray[np.int64] = visited(path)["ts"].cast(pa.int64()).to_numpy()
    return times


@lru_cache(maxsize=2)
def _most_visited(path: str, places: int) -> npt.NDArray[np.int64]:
    """Columns and rows of the squares with the most points, most first; ties from south to north, west to east."""
    points = visited(path)
    at = np.stack([np.floor(points[name].to_numpy() * PER_DEGREE).astype(np.int64) for name in ("y", "x")])
    squares, counts = np.unique(at, axis=1, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:places]
    chosen: npt.NDArray[np.int64] = squares[::-1, order]
    return chosen
