"""Vehicles of a SUMO simulation as events of the `traffic` workload: SUMO's columns in, the workload's out."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shoal.connectors.sources.live_cursor import LiveCursor
from shoal.connectors.sources.source import Offset, RawBatch, Slice
from shoal.connectors.sources.sumo import Bounds, Sumo
from shoal.errors import ConfigError

KMH_PER_M_S = 3.6
NEEDED = ("ts", "id", "x", "y", "type", "speed")


@dataclass(frozen=True)
class Regions:
    """A rectangle in columns and rows of equal size, as square as their number allows; numbered row by row.

    >>> Regions.of(100, Bounds(0, 0, 500, 1000)), Regions.of(7, Bounds(0, 0, 1, 1)).columns
    (Regions(bounds=Bounds(min_x=0, min_y=0, max_x=500, max_y=1000), columns=10, rows=10), 7)
    """

    bounds: Bounds
    columns: int
    rows: int

    @classmethod
    def of(cls, number: int, bounds: Bounds) -> "Regions":
        """That many regions; the longer side of a row of them is that of x."""
        rows = next(each for each in range(isqrt(number), 0, -1) if number % each == 0)
        return cls(bounds, number // rows, rows)

    def at(self, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """The regions of points; a point outside belongs to the nearest region at the border.

        >>> Regions(Bounds(0, 0, 100, 100), 2, 2).at(np.array([10.0, 60.0, 999.0]), np.array([10.0, 60.0, -5.0]))
        array([0, 3, 1])
        """
        box = self.bounds
        column = _cell(x, box.min_x, box.max_x, self.columns)
        return _cell(y, box.min_y, box.max_y, self.rows) * self.columns + column


@dataclass(frozen=True)
class SumoVehicles:
    """The simulation as the source of stream `vehicles`: every vehicle reports in every time step.

    The vehicle's number is made of its id by a hash, its region is the part of the map that it is in, its type is
    SUMO's, and its speed is in km/h.
    """

    live: ClassVar[bool] = True

    simulation: Sumo
    regions: Regions

    @classmethod
    def of(cls, simulation: Sumo, regions: int) -> "SumoVehicles":
        """The vehicles on a map that is divided into this many regions."""
        if simulation.geo:
            raise ConfigError("traffic divides the plane of the road network into regions; omit geo")
        return cls(simulation, Regions.of(regions, simulation.bounds()))

    def start(self) -> Offset:
        """Before the first time step."""
        return self.simulation.start()

    def cursor(self, directory: str) -> LiveCursor:
        """The cursor of the simulation."""
        return self.simulation.cursor(directory)

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch]:
        """The events of stored time steps."""
        for raw in self.simulation.read(piece, NEEDED):
            events = self.events(raw.batch)
            yield replace(raw, batch=events.select([name for name in columns if name in events.schema.names]))

    def first_events(self, number: int) -> pa.Table:
        """The first events, of a simulation that runs once more for this only."""
        rows = self.simulation.first_rows(number).select(NEEDED).combine_chunks()
        nothing = pa.RecordBatch.from_pylist([], rows.schema)
        return pa.Table.from_batches([self.events(batch) for batch in rows.to_batches() or [nothing]])

    def events(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of SUMO as events."""
        x, y = (rows[name].to_numpy(zero_copy_only=False) for name in ("x", "y"))
        known = np.isfinite(x) & np.isfinite(y)
        region = self.regions.at(np.where(known, x, 0.0), np.where(known, y, 0.0))
        return pa.record_batch(
            {
                "ts": rows["ts"],
                "vehicle": _numbers(rows["id"]),
                "region": pa.array(region, mask=~known),
                "vehicle_type": rows["type"],
                "speed": pc.multiply(rows["speed"], KMH_PER_M_S),
            }
        )


def _cell(values: npt.NDArray[np.float64], low: float, high: float, number: int) -> npt.NDArray[np.int64]:
    """Which of `number` equal parts of a range values are in; those outside are in the first or the last."""
    size = (high - low) / number if high > low else 1.0
    return np.clip(np.floor((values - low) / size), 0, number - 1).astype(np.int64)


def _numbers(ids: pa.Array) -> pa.Array:
    """A number for each id, the same everywhere; vehicles that share one are as rare as hash collisions of 63 bits."""
    encoded = ids.dictionary_encode()
    numbers = [
        int.from_bytes(hashlib.blake2b(each.encode(), digest_size=8).digest(), "big") >> 1
        for each in encoded.dictionary.to_pylist()
    ]
    return pa.array(numbers, pa.int64()).take(encoded.indices)
