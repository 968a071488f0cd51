"""A source of given rows, a few per poll."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from shoal.connectors.sources.source import Offset, RawBatch, Slice


@dataclass(frozen=True)
class RowSource:
    """Rows of a stream, a limited number per poll."""

    rows: Sequence[Mapping[str, Any]]
    schema: pa.Schema
    at_once: int = 7

    def start(self) -> Offset:
        return {"position": 0, "ended": not self.rows}

    def cursor(self, directory: str) -> "RowSource":
        return self

    def latest(self, start: Offset) -> Offset:
        end = min(len(self.rows), start["position"] + self.at_once)
        return {"position": end, "ended": end == len(self.rows)}

    def slices(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Slice]:
        return [Slice("rows", end["position"] - start["position"], {"from": start["position"], "to": end["position"]})]

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch]:
        rows = self.rows[piece.data["from"] : piece.data["to"]]
        fields = [self.schema.field(name) for name in columns]
        arrays = [pa.array([row[field.name] for row in rows], field.type) for field in fields]
        yield RawBatch(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), "rows", piece.data["from"])
