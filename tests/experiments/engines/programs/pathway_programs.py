"""The queries of the conformance list for Pathway, but for those in SQL."""

from datetime import timedelta
from typing import Any

import pathway as pw

TWO_SECONDS, TEN_SECONDS = timedelta(seconds=2), timedelta(seconds=10)


def projection(tables: Any) -> Any:
    """Other units."""
    cars = tables["cars"]
    return cars.select(
        cars.ts, next_road=pw.unwrap(cars.road) + 1, ms=pw.require(pw.unwrap(cars.speed) / 3.6, cars.speed)
    )


def fast(tables: Any) -> Any:
    """Cars that are fast."""
    known = tables["cars"].filter(tables["cars"].speed.is_not_none())
    plain = known.select(known.ts, known.road, speed=pw.unwrap(known.speed))
    return plain.filter(plain.speed > 50)


def window(tables: Any) -> Any:
    """Number and mean speed of the cars of every road, every ten seconds."""
    cars = tables["cars"]
    filled = cars.select(
        cars.ts, cars.road, known=pw.cast(int, cars.speed.is_not_none()), speed=pw.coalesce(cars.speed, 0.0)
    )
    windows = filled.windowby(filled.ts, window=pw.temporal.tumbling(duration=TEN_SECONDS), instance=filled.road)
    sums = windows.reduce(
        road=pw.this._pw_instance,
        window_end=pw.this._pw_window_end,
        n=pw.reducers.count(),
        known=pw.reducers.sum(pw.this.known),
        total=pw.reducers.sum(pw.this.speed),
    )
    mean = pw.if_else(sums.known == 0, None, sums.total / sums.known)
    return sums.select(sums.road, sums.window_end, sums.n, mean_speed=mean)


def join(tables: Any) -> Any:
    """Cars and the tolls of their road within two seconds."""
    cars, tolls = tables["cars"], tables["tolls"]
    near = pw.temporal.interval(-TWO_SECONDS, TWO_SECONDS)
    return cars.interval_join(tolls, cars.ts, tolls.ts, near, cars.road == tolls.gate).select(
        cars.road, cars.kind, tolls.price
    )
