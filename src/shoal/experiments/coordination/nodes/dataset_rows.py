"""Rows of datasets, in the order in which they are sent: blocks with at most one batch for every stream."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.connectors.admission import admit
from shoal.connectors.sources.files import Files
from shoal.connectors.sources.source import BadFile, RawBatch, Source
from shoal.errors import ConfigError, SourceError
from shoal.experiments.engines.row_types import columns_of
from shoal.language.yaml.definitions import Dataset, StreamDefinition
from shoal.session.graphfile import csv_rows, ticks_as_us, yaml_rows
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

BLOCK_ROWS = 4096
Streams = Mapping[int, StreamDefinition]


@dataclass(frozen=True)
class DatasetRows:
    """All rows of a dataset: a table for each stream, and to which stream each row in turn belongs."""

    tables: Mapping[int, pa.Table]
    order: NDArray[np.int64]
    streams: Streams

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.order)

    def part(self, first: int, stop: int) -> list[tuple[int, pa.RecordBatch]]:
        """Rows number first .. stop - 1: a batch for each stream that is among them."""
        found = []
        for stream, table in self.tables.items():
            begin, end = np.searchsorted(self._positions[stream], (first, stop))
            if end > begin:
                batches = table.slice(begin, end - begin).combine_chunks().to_batches()
                found.append((stream, batches[0]))
        return found

    def positions(self, stream: int) -> NDArray[np.int64]:
        """Which rows are of a stream."""
        return self._positions[stream]

    @cached_property
    def _positions(self) -> dict[int, NDArray[np.int64]]:
        return {stream: np.flatnonzero(self.order == stream) for stream in self.tables}

    @cached_property
    def times_s(self) -> NDArray[np.float64]:
        """When each row is due, in seconds after the first, by event times that never go back."""
        due_us = np.zeros(self.rows, np.int64)
        for stream, table in self.tables.items():
            time = self.streams[stream].time
            if not time:
                raise ConfigError(f"stream {self.streams[stream].name!r} has no timestamp to be sent by")
            column = table.column(time).combine_chunks()
            due_us[self._positions[stream]] = pc.fill_null(column.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
        if not self.rows:
            return due_us.astype(np.float64)
        due: NDArray[np.float64] = (np.maximum.accumulate(due_us) - due_us[0]) / 1e6
        return due

    def of_stream(self, stream: int, most: int | None = None) -> "DatasetRows":
        """The rows of one stream, perhaps only the first of them."""
        table = self.tables.get(stream)
        if table is None:
            known = ", ".join(f"{each} {self.streams[each].name}" for each in self.tables) or "none"
            raise ConfigError(f"the dataset has no rows of stream {stream}; it has streams {known}")
        if most is not None and most > table.num_rows:
            raise ConfigError(f"the dataset must have {most} rows of stream {stream}; it has {table.num_rows}")
        table = table.slice(0, most)
        return DatasetRows({stream: table}, np.full(table.num_rows, stream, np.int64), self.streams)


def dataset_rows(dataset: Dataset, directory: Path, streams: Streams) -> DatasetRows:
    """Read, or generate, all rows of a dataset."""
    if dataset.generator:
        return _generated(dataset, streams)
    if dataset.format:
        number = next(each for each, stream in streams.items() if stream.name == dataset.stream)
        kept: Any = dataset.format
        unit: Any = dataset.time_unit
        files = Files(str(directory / dataset.file), kept, follow=False, time_unit=unit)
        return _together({number: _read(files, streams[number])}, streams)
    return _from_file(dataset, directory / dataset.file, streams)


def _from_file(dataset: Dataset, path: Path, streams: Streams) -> DatasetRows:
    """A file whose rows begin with the number of their stream."""
    if not path.is_file():
        raise SourceError(f"there is no dataset {path}")
    named = {each.id: each for each in streams.values()}
    rows = csv_rows(path) if dataset.type == "csv" else yaml_rows(path, named)
    kept: dict[int, list[list[str | None]]] = {}
    order = []
    for at, stream, values in rows:
        if stream not in named:
            raise SourceError(f"{path} {at}: there is no stream {stream!r}; there are {', '.join(named) or 'none'}")
        if len(values) != len(named[stream].columns):
            raise SourceError(
                f"{path} {at}: a row of stream {stream} ({named[stream].name}) must have "
                f"{len(named[stream].columns)} fields after its stream id; got {len(values)}"
            )
        kept.setdefault(int(stream), []).append(list(values))
        order.append(int(stream))
    tables = {stream: _typed(values, streams[stream], path) for stream, values in kept.items()}
    return DatasetRows(tables, np.array(order, np.int64), streams)


def _typed(rows: list[list[str | None]], definition: StreamDefinition, path: Path) -> pa.Table:
    """Texts as the columns of a stream; a value that does not fit is an error."""
    columns: dict[str, list[str | None]] = dict(
        zip(definition.columns, map(list, zip(*rows, strict=True)), strict=True)
    )
    for name, type_ in definition.columns.items():
        if not type_.startswith("string"):
            columns[name] = [text or None for text in columns[name]]
    if definition.tick_ns is not None:
        columns[definition.time] = [ticks_as_us(text, definition.tick_ns) for text in columns[definition.time]]
    texts = pa.record_batch({name: pa.array(values, pa.string()) for name, values in columns.items()})
    return _admitted(RawBatch(texts, str(path)), definition)


def _admitted(raw: RawBatch, definition: StreamDefinition) -> pa.Table:
    schema = columns_of(definition)
    admitted = admit(raw, schema, definition.time, None)
    for refusal in admitted.refusals:
        row = raw.number(int(refusal.rows[0]))
        where = f"{raw.where}: row {row} of stream {definition.name!r}"
        raise SourceError(f"{where}, column {refusal.column!r}: {refusal.reason}, {refusal.detail}")
    return pa.Table.from_batches([admitted.batch]).cast(pa.schema([each.with_nullable(True) for each in schema]))


def _read(source: Source, definition: StreamDefinition) -> pa.Table:
    """All rows of a source."""
    parts = [pa.table([[]] * len(definition.columns), schema=_nullable(definition))]
    with tempfile.TemporaryDirectory(prefix="shoal-dataset-") as directory:
        cursor, position = source.cursor(directory), source.start()
        while not position["ended"]:
            end = cursor.latest(position)
            if end == position:
                break
            for piece in cursor.slices(position, end, 1):
                for raw in source.read(piece, list(definition.columns)):
                    if isinstance(raw, BadFile):
                        raise SourceError(f"{raw.where} cannot be read: {raw.reason}")
                    parts.append(_admitted(raw, definition))
            position = end
    return pa.concat_tables(parts)


def _nullable(definition: StreamDefinition) -> pa.Schema:
    return pa.schema([each.with_nullable(True) for each in columns_of(definition)])


def _generated(dataset: Dataset, streams: Streams) -> DatasetRows:
    """The events of a workload, for those of its streams that the file declares."""
    made = workload(dataset.generator).ready(dataset.seed, Amount(dataset.events), {})
    declared = {stream.name: number for number, stream in streams.items()}
    sources = {name: source for name, source in made.job.sources.items() if name in declared}
    if not sources:
        known = ", ".join(made.job.sources)
        dataset.part.fail(
            f"generator {dataset.generator} makes the streams {known}; stream-definitions has none of them"
        )
    return _together(
        {declared[name]: _read(source, streams[declared[name]]) for name, source in sources.items()}, streams
    )


def _together(tables: Mapping[int, pa.Table], streams: Streams) -> DatasetRows:
    """Rows of several streams in order of their event times; rows of one stream keep their order."""
    if len(tables) == 1 or not all(streams[stream].time for stream in tables):
        order = np.concatenate([np.full(table.num_rows, stream, np.int64) for stream, table in tables.items()])
        return DatasetRows(tables, order, streams)
    times, members = [], []
    for stream, table in tables.items():
        column = table.column(streams[stream].time).combine_chunks().view(pa.int64())
        times.append(np.maximum.accumulate(pc.fill_null(column, 0).to_numpy(zero_copy_only=False)))
        members.append(np.full(table.num_rows, stream, np.int64))
    return DatasetRows(tables, np.concatenate(members)[np.argsort(np.concatenate(times), kind="stable")], streams)


def blocks(rows: int, size: int = BLOCK_ROWS) -> Iterator[tuple[int, int]]:
    """The bounds of blocks of rows."""
    for first in range(0, rows, size):
        yield first, min(rows, first + size)
