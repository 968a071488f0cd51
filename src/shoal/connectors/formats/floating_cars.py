"""Floating-car data of SUMO: XML that is parsed while it is being written, one Arrow batch per time step."""

from collections.abc import Sequence
from typing import Any
from xml.parsers import expat

import pyarrow as pa
import pyarrow.compute as pc

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "id": pa.string(),
        "x": pa.float64(),
        "y": pa.float64(),
        "angle": pa.float64(),
        "type": pa.string(),
        "speed": pa.float64(),
        "pos": pa.float64(),
        "lane": pa.string(),
        "edge": pa.string(),
        "slope": pa.float64(),
    }
)
"""SUMO's own names, and the edge that the lane belongs to; an attribute that a vehicle lacks is null."""
MICROSECONDS = 1_000_000


class FloatingCars:
    """A parser that is given the text in pieces of any length; positions of persons and containers are left out.

    >>> cars = FloatingCars(start_us=0)
    >>> cars.parse(b'<fcd-export><timestep time="2.50"><vehicle id="a" x="1.5" lane="e_0"/></time')
    []
    >>> [batch] = cars.parse(b"step>")
    >>> batch.select(["id", "x", "y", "edge"]).to_pylist()
    [{'id': 'a', 'x': 1.5, 'y': None, 'edge': 'e'}]
    >>> cars.complete
    False
    """

    def __init__(self, start_us: int) -> None:
        """`start_us`: the event time at second 0 of the simulation."""
        self.complete = False
        """Whether the end of the document has been parsed."""
        self._start_us = start_us
        self._vehicles: list[dict[str, str]] = []
        self._ts = start_us
        self._steps: list[pa.RecordBatch] = []
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end

    def parse(self, text: bytes) -> Sequence[pa.RecordBatch]:
        """The time steps that end in the next piece of text; raises `ValueError` if it is no floating-car data."""
        try:
            self._parser.Parse(text)
        except expat.ExpatError as error:
            raise ValueError(f"its floating-car data is not XML: {error}") from error
        steps, self._steps = self._steps, []
        return steps

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        if name == "vehicle":
            self._vehicles.append(attributes)
        elif name == "timestep":
            self._ts = self._start_us + round(float(attributes["time"]) * MICROSECONDS)

    def _end(self, name: str) -> None:
        if name == "timestep":
            self._steps.append(_batch(self._ts, self._vehicles))
            self._vehicles = []
        self.complete = name == "fcd-export"


def _batch(ts: int, vehicles: Sequence[dict[str, str]]) -> pa.RecordBatch:
    """The rows of one time step."""
    columns: dict[str, Any] = {"ts": pa.array([ts] * len(vehicles), SCHEMA.field("ts").type)}
    for field in SCHEMA:
        if field.name not in ("ts", "edge"):
            texts = pa.array([vehicle.get(field.name) for vehicle in vehicles], pa.string())
            columns[field.name] = texts.cast(field.type)
    columns["edge"] = pc.replace_substring_regex(columns["lane"], "_[0-9]+$", "")
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)
