"""A day of bike trips as a city publishes it: files with the faults that real ones have.

The trips are those of `BikesEvents`. What the files do to them is made to match a published day of 66,506 trips:

- the end station and the rider's year of birth are missing in some rows;
- a trip is written when its dock sends it, up to 93 minutes after trips that ended later;
- some trips are written twice;
- times are whole seconds, so many are equal, and some are written with the offset of the city;
- years of birth are written as `1984` or `1984.0`, minutes as decimals;
- stations have names with accents, commas, quotes and letters of other alphabets;
- four rows are broken: two hold a text instead of a number, one a decimal comma, one has no bike.

A second stream, the free docks of the stations, is in order. It lacks some numbers, and some names of stations.
"""

import csv
import datetime as dt
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shoal.workloads.bikes.events import BikesEvents
from shoal.workloads.limits import SEED, check_limits

Ints = npt.NDArray[np.int64]

ROWS = 66_506
MOST_LATE_S = 93 * 60
"""No row is further behind the newest row before it."""
TRIPS = ("ended_at", "bike_id", "start_station", "end_station", "minutes", "birth_year", "member")
DOCKS = ("reported_at", "station", "free")
LIMITS = {"rows": (100, 10_000_000), "seed": SEED}
FILES = 4
REPORTS_PER_DAY = 48

TWICE_SHARE, DELAYED_SHARE, LOCAL_TIME_SHARE, AS_FLOAT_SHARE = 0.004, 0.1, 0.08, 0.3
NO_END_SHARE, NO_YEAR_SHARE, NO_FREE_SHARE, NO_NAME_SHARE = 0.02, 0.11, 0.05, 0.01
CITY_TIME = dt.timezone(dt.timedelta(hours=2))
PLACES = ("Aéroport", "Plaza Mayor, norte", "Łódź Fabryczna", "Ørestad", 'The "Old" Mill', "東京駅", "Größe", "Αθήνα")
CORNERS = ("I", "II", "III", "IV", "V")
NAMES = tuple(f"{place} {corner}" for place in PLACES for corner in CORNERS)
BROKEN = (
    "{ended_at},{bike_id},Ørestad I,Ørestad II,12.50,n/a,Subscriber",
    "{ended_at},{bike_id},Ørestad I,Ørestad II,25 min,1984,Customer",
    "{ended_at},{bike_id},Ørestad I,Ørestad II,12,5,1984,Customer",
    "{ended_at},,Ørestad I,Ørestad II,12.50,1984,Subscriber",
)


@dataclass(frozen=True)
class DirtyDay:
    """The files of a day, as lists of lines without their header: a function of the number of rows and the seed.

    >>> day = DirtyDay(rows=1000)
    >>> len(day.trips()), day.trips() == DirtyDay(rows=1000).trips()
    (1000, True)
    >>> print(day.trips()[0])
    2018-10-01T00:00:00Z,17155,Aéroport II,"Plaza Mayor, norte II",10.18,...
    """

    rows: int = ROWS
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject settings beyond their limits."""
        check_limits("dirty bikes", self, LIMITS)

    def trips(self) -> list[str]:
        """The lines of all trips, in the order in which they are written."""
        draw = np.random.default_rng(self.seed)
        twice = int(self.rows * TWICE_SHARE)
        number = self.rows - twice - len(BROKEN)
        batch = BikesEvents(stations=len(NAMES), per_day=number, seed=self.seed).batch(0, number)
        ends_s = batch["ts"].cast("int64").to_numpy() // 1_000_000
        lines = _trip_lines(batch.to_pydict(), ends_s, draw)
        copied = draw.choice(number, twice, replace=False)
        broken = draw.choice(number, len(BROKEN), replace=False)
        lines += [lines[row] for row in copied]
        lines += [
            text.format(ended_at=_time(ends_s[row]), bike_id=batch["bikeid"][row].as_py())
            for text, row in zip(BROKEN, broken, strict=True)
        ]
        written_s = np.concatenate([ends_s, ends_s[copied], ends_s[broken]]) + _delays(self.rows, draw)
        return [lines[row] for row in np.argsort(written_s, kind="stable")]

    def docks(self) -> list[str]:
        """The lines of all reports of free docks, in order."""
        draw = np.random.default_rng((self.seed, 1))
        start_s, every_s = BikesEvents().start_us // 1_000_000, 86_400 // REPORTS_PER_DAY
        turns, stations = range(REPORTS_PER_DAY), range(len(NAMES))
        rows = []
        for reported_s, station in ((start_s + every_s * turn + 37 * n, n) for turn in turns for n in stations):
            no_free, no_name = draw.random(2) < (NO_FREE_SHARE, NO_NAME_SHARE)
            free = int(draw.integers(0, 30))
            rows.append([_time(reported_s), None if no_name else NAMES[station], None if no_free else free])
        return _csv(rows)

    def write(self, directory: str | Path) -> None:
        """Write `trips/1.csv` to `trips/4.csv` and `docks/1.csv` into a directory."""
        lines = self.trips()
        cuts = [len(lines) * part // FILES for part in range(FILES + 1)]
        for number, (begin, end) in enumerate(pairwise(cuts), start=1):
            _write(Path(directory) / "trips" / f"{number}.csv", TRIPS, lines[begin:end])
        _write(Path(directory) / "docks" / "1.csv", DOCKS, self.docks())


def _trip_lines(trips: dict[str, list[object]], ends_s: Ints, draw: np.random.Generator) -> list[str]:
    """One line per trip, in the order of their ends."""
    number = len(ends_s)
    local, no_end, no_year, as_float = (
        draw.random(number) < share for share in (LOCAL_TIME_SHARE, NO_END_SHARE, NO_YEAR_SHARE, AS_FLOAT_SHARE)
    )
    born = draw.integers(1938, 2002, number)
    starts, ends = (_names(trips[name]) for name in ("start_station_id", "end_station_id"))
    rows = [
        (
            _time(ends_s[n], CITY_TIME if local[n] else dt.UTC),
            trips["bikeid"][n],
            starts[n],
            None if no_end[n] else ends[n],
            f"{int(str(trips['duration'][n])) / 60:.2f}",
            None if no_year[n] else f"{born[n]}.0" if as_float[n] else born[n],
            trips["user_type"][n],
        )
        for n in range(number)
    ]
    return _csv(rows)


def _names(stations: Sequence[object]) -> list[str]:
    """The name of every station, by its number."""
    return [NAMES[int(str(station)) // 3 % len(NAMES)] for station in stations]


def _delays(rows: int, draw: np.random.Generator) -> Ints:
    """Seconds from the end of a trip until it is written: none for most, and the longest for one in the middle."""
    delays = np.where(draw.random(rows) < DELAYED_SHARE, draw.integers(0, MOST_LATE_S, rows), 0)
    delays[rows // 2] = MOST_LATE_S
    return delays


def _time(seconds: int, zone: dt.timezone = dt.UTC) -> str:
    return dt.datetime.fromtimestamp(int(seconds), zone).isoformat().replace("+00:00", "Z")


def _csv(rows: Iterable[Sequence[object]]) -> list[str]:
    """A line per row; a None is an empty field."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().splitlines()


def _write(path: Path, columns: Sequence[str], lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([",".join(columns), *lines, ""]), encoding="utf-8")
