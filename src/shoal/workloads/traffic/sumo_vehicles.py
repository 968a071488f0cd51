"""Vehicles of a SUMO simulation as events of the `traffic` workload: SUMO's columns in, the workload's out."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.connectors.sources.live_cursor import LiveCursor
from shoal.connectors.sources.source import Offset, RawBatch, Slice
from shoal.connectors.sources.sumo import Bounds, Sumo
from shoal.errors import ConfigError
from shoal.kernels.spatial.coverage import cells_of
from shoal.model.spatial.grid import Grid

KMH_PER_M_S = 3.6
NEEDED = ("ts", "id", "x", "y", "type", "speed")


@dataclass(frozen=True)
class SumoVehicles:
    """The simulation as the source of stream `vehicles`: every vehicle reports in every time step.

    The vehicle's number is made of its id by a hash, its region is the part of the map that it is in, its type is
    SUMO's, and its speed is in km/h.
    """

    live: ClassVar[bool] = True

    simulation: Sumo
    regions: Grid

    @classmethod
    def of(cls, simulation: Sumo, regions: int) -> "SumoVehicles":
        """The vehicles on a map that is divided into this many regions."""
        if simulation.geo:
            raise ConfigError("traffic divides the plane of the road network into regions; omit geo")
        return cls(simulation, regions_of(regions, simulation.bounds()))

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
        region = cells_of(self.regions, np.where(known, x, 0.0), np.where(known, y, 0.0))
        return pa.record_batch(
            {
                "ts": rows["ts"],
                "vehicle": _numbers(rows["id"]),
                "region": pa.array(region, mask=~known),
                "vehicle_type": rows["type"],
                "speed": pc.multiply(rows["speed"], KMH_PER_M_S),
            }
        )


def regions_of(number: int, bounds: Bounds) -> Grid:
    """A rectangle in that many cells, as square as their number allows; one without extent is made 1 m wide.

    >>> regions_of(100, Bounds(0, 0, 500, 1000)).columns, regions_of(7, Bounds(0, 0, 1, 0)).columns
    (10, 7)
    """
    rows = next(each for each in range(isqrt(number), 0, -1) if number % each == 0)
    max_x, max_y = max(bounds.max_x, bounds.min_x + 1), max(bounds.max_y, bounds.min_y + 1)
    return Grid((bounds.min_x, bounds.min_y, max_x, max_y), number // rows, rows)


def _numbers(ids: pa.Array) -> pa.Array:
    """A number for each id, the same everywhere; vehicles that share one are as rare as hash collisions of 63 bits."""
    encoded = ids.dictionary_encode()
    numbers = [
        int.from_bytes(hashlib.blake2b(each.encode(), digest_size=8).digest(), "big") >> 1
        for each in encoded.dictionary.to_pylist()
    ]
    return pa.array(numbers, pa.int64()).take(encoded.indices)
