"""Reports of the `skew` workload: vehicles on the road segments of a city, most of them on a few that are hot.

An event is a function of its index alone, so a source can be split, replayed and resumed at any index. A segment is a
cell: one kilometre of a road that is twenty metres wide. Which cells are hot depends on event time.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.errors import ConfigError
from shoal.kernels.compiled import compiled
from shoal.workloads.limits import PER_S, SEED, START_US, check_limits, check_slice
from shoal.workloads.scatter import below, mix

Profile = Literal["steps", "orbit", "oscillating"]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MICROSECONDS = 1_000_000
LENGTH_DM, WIDTH_DM = 10_000, 200
LARGEST_SPEED, LARGEST_BRAKING = 4095, 999
"""In cm/s and cm/s²."""
STANDING = 4096
"""One report in this many is of a standing vehicle."""
SHARES = 1 << 24
"""Shares of the cells are multiples of one part in this many."""
SCHEMA = pa.schema(
    {"ts": pa.timestamp("us"), **dict.fromkeys(("cell", "vehicle", "x", "y", "speed", "braking"), pa.int64())}
)
LIMITS = {
    "cells": (1, 4096),
    "per_s": PER_S,
    "hot": (1, 4096),
    "heat": (0, 1),
    "skew": (0, 10),
    "stride": (1, 4096),
    "move_s": (0, 1_000_000),
    "drift": (0, 4096),
    "vehicles": (1, 2**31),
    "seed": SEED,
    "start_us": START_US,
}
FRACTIONAL = ("heat", "skew", "move_s")


@dataclass(frozen=True)
class SkewEvents:
    """An endless stream of reports, `per_s` for every second of event time, with a hotspot that moves.

    The `hot` cells have `heat` of all reports, the one of rank r in proportion to `1 / r ** skew`; the others have the
    rest in equal parts. Hot cells lie `stride` apart. The hotspot stays for `move_s` seconds, forever if that is 0.
    By its profile it then goes `drift` cells on at once (`steps`) or has been gliding there all the while (`orbit`);
    or it goes back and forth between two positions (`oscillating`).

    >>> events = SkewEvents(cells=8, hot=2, heat=0.75, skew=1.0, move_s=1.0)
    >>> events.hot_cells(0.0), events.hot_cells(1.0)
    ([0, 4], [1, 5])
    >>> events.shares(0.0).round(3).tolist()
    [0.5, 0.042, 0.042, 0.042, 0.25, 0.042, 0.042, 0.042]
    >>> events.batch(5, 9) == events.batch(0, 9).slice(5)
    True
    """

    cells: int = 64
    per_s: int = 20_000
    hot: int = 12
    heat: float = 0.8
    skew: float = 0.25
    stride: int = 4
    profile: Profile = "steps"
    move_s: float = 20.0
    drift: int = 1
    vehicles: int = 20_000
    seed: int = 0
    start_us: int = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z

    def __post_init__(self) -> None:
        """Reject settings beyond their limits and hot cells that overlap."""
        if self.profile not in get_args(Profile):
            choices = ", ".join(get_args(Profile))
            raise ConfigError(f"skew profile must be one of {choices}; got {self.profile!r}")
        check_limits("skew", self, LIMITS, FRACTIONAL)
        if self.hot * self.stride > self.cells:
            raise ConfigError(
                f"skew needs room for its hot cells: hot times stride must be at most {self.cells} cells; "
                f"got hot {self.hot}, stride {self.stride}"
            )

    @staticmethod
    def schema() -> pa.Schema:
        """Columns of every batch: x along the road and y across it in decimetres, speed in cm/s, braking in cm/s².

        >>> SkewEvents.schema().names
        ['ts', 'cell', 'vehicle', 'x', 'y', 'speed', 'braking']
        """
        return SCHEMA

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number `start` to `stop` - 1; a pure function of its arguments."""
        ts, *others = (pa.array(column) for column in self.columns(start, stop).values())
        return pa.RecordBatch.from_arrays([ts.view(pa.timestamp("us")), *others], schema=SCHEMA)

    def columns(self, start: int, stop: int) -> dict[str, Ints]:
        """The same events as plain arrays, times in microseconds."""
        check_slice("skew", start, stop)
        columns = np.empty((len(SCHEMA), stop - start), np.int64)
        ranked, last = _ranks(self)
        clock = (self.start_us, self.per_s, round(self.move_s * MICROSECONDS), self.drift)
        profile = get_args(Profile).index(self.profile)
        _fill(columns, start, np.uint64(self.seed), clock, profile, ranked, last, self.vehicles)
        return dict(zip(SCHEMA.names, columns, strict=True))

    def index_at(self, seconds: float) -> int:
        """The number of events before this offset of event time from the start."""
        return -(-max(0, round(seconds * MICROSECONDS)) * self.per_s // MICROSECONDS)

    def seconds_at(self, index: int) -> float:
        """The offset of event time of an event from the start.

        >>> SkewEvents(per_s=100).seconds_at(150), SkewEvents(per_s=100).index_at(1.5)
        (1.5, 150)
        """
        return index * MICROSECONDS // self.per_s / MICROSECONDS

    def shares(self, at_s: float) -> Floats:
        """The share of the reports that every cell has at an offset of event time from the start."""
        ranked, last = _ranks(self)
        step, glided = self._step(at_s)
        shares, by_rank = np.zeros(self.cells), np.diff(last, prepend=0) / SHARES
        shares[(ranked + step * self.drift) % self.cells] += by_rank * (1 - glided)
        shares[(ranked + (step + 1) * self.drift) % self.cells] += by_rank * glided
        return shares

    def hot_cells(self, at_s: float) -> list[int]:
        """The hot cells at an offset of event time from the start, hottest first."""
        step, glided = self._step(at_s)
        nearest = step + (glided > 0.5)
        return [int(cell + nearest * self.drift) % self.cells for cell in _ranks(self)[0][: self.hot]]

    def _step(self, at_s: float) -> tuple[int, float]:
        """The number of moves of the hotspot, and the share of it that has already moved on."""
        if not isfinite(at_s) or at_s < 0:
            raise ConfigError(f"skew offset must be a finite number of seconds from 0 on; got {at_s!r}")
        move_us = round(self.move_s * MICROSECONDS)
        if not move_us:
            return 0, 0.0
        step, since_us = divmod(round(at_s * MICROSECONDS), move_us)
        if self.profile == "oscillating":
            return step % 2, 0.0
        return step, since_us / move_us if self.profile == "orbit" else 0.0


@lru_cache(maxsize=16)
def _ranks(city: SkewEvents) -> tuple[Ints, Ints]:
    """Cells by rank, hot ones first, before the first move; and the cumulative share of each."""
    hot = np.arange(city.hot) * city.stride
    ranked = np.concatenate([hot, np.setdiff1d(np.arange(city.cells), hot)])
    cold = city.cells - city.hot
    heat = city.heat if cold else 1.0
    weights = 1 / np.arange(1, city.hot + 1) ** float(city.skew)
    shares = np.concatenate([weights * (heat / weights.sum()), np.full(cold, (1 - heat) / max(1, cold))])
    last = np.rint(np.cumsum(shares) * SHARES).astype(np.int64)
    last[-1] = SHARES
    return ranked, last


@compiled
def _speed(bits: np.uint64) -> int:
    """Turn the lower 22 bits into the speed of a vehicle that drives: two draws added up, so rarely near an end."""
    half = np.uint64(LARGEST_SPEED // 2)
    return int(1 + np.int64(bits & half) + np.int64((bits >> np.uint64(11)) & half))


@compiled
def _fill(
    columns: Ints,
    start: int,
    seed: np.uint64,
    clock: tuple[int, int, int, int],
    profile: int,
    ranked: Ints,
    last: Ints,
    vehicles: int,
) -> None:
    """Fill the columns with the events from number `start` on; `profile` is its index as declared."""
    ts, cell, vehicle, x, y, speed, braking = columns
    start_us, per_s, move_us, drift = clock
    stream = mix(seed)
    for n in range(columns.shape[1]):
        index = start + n
        first = mix(stream ^ np.uint64(index))
        second = mix(first)
        third = mix(second)
        offset_us = index * MICROSECONDS // per_s
        step, since_us = 0, 0
        if move_us > 0:
            step, since_us = divmod(offset_us, move_us)
        if profile == 1 and since_us > move_us * (float(third & np.uint64(0xFFFFFFFF)) / (1 << 32)):
            step += 1
        elif profile == 2:
            step %= 2
        rank = np.searchsorted(last, np.int64(first >> np.uint64(40)), side="right")
        ts[n] = start_us + offset_us
        cell[n] = (ranked[rank] + step * drift) % len(ranked)
        vehicle[n] = below(vehicles, first)
        x[n] = below(LENGTH_DM, second)
        y[n] = below(WIDTH_DM, second >> np.uint64(32))
        fourth = mix(third)
        speed[n] = _speed(third >> np.uint64(32)) if below(STANDING, fourth) else 0
        braking[n] = below(LARGEST_BRAKING + 1, fourth >> np.uint64(32))
