"""Jobs from graph files: the queries of the file, fed by its datasets.

A dataset with a `format` is a directory of files that is read directly. One with a `type` is a file of DCEP-Sim: every
row begins with the number of its stream. It is first split into one Parquet file per stream without a directory, below
the directory for temporary files. The same dataset always gives the same files, so a checkpoint finds them again.
"""

import csv
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from shoal.connectors.sources.files import Files
from shoal.connectors.sources.source import Source
from shoal.errors import ConfigError, GraphError, SourceError, reason_of
from shoal.language.python.replay import Named
from shoal.language.yaml.definitions import Dataset, StreamDefinition
from shoal.language.yaml.graph_file import GraphFile, load_file
from shoal.session.job import Job
from shoal.storage.private import private_directory

ROW_GROUP_ROWS = 100_000
_NANOSECONDS = 1000
Row = Sequence[str | None]


def graph_file(path: Path, functions: Named | None = None, *, allow_pickle: bool = False) -> GraphFile:
    """Read a graph file; `functions` and `allow_pickle` as in `load_graph`."""
    return load_file(text_of(path), str(path), functions, allow_pickle=allow_pickle)


def text_of(path: Path) -> str:
    """The content of a text file that a user names."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {path}") from error
    except OSError as error:
        raise ConfigError(f"file {path} cannot be read: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} must be UTF-8 text") from error


def job_from_graph(
    path: Path,
    rows_per_epoch: int | None = None,
    source: Source | None = None,
    settings: Mapping[str, str] | None = None,
    functions: Named | None = None,
    *,
    allow_pickle: bool = False,
) -> Job:
    """A job from a graph file; another source may replace the one of a file with a single stream."""
    if settings:
        raise ConfigError(f"--set is for workloads; {path} takes no settings")
    file = graph_file(path, functions, allow_pickle=allow_pickle)
    streams = tuple(file.graph.streams)
    if source is not None:
        if len(streams) != 1:
            raise ConfigError(f"--source replaces the source of a job with one stream; {path} has {len(streams)}")
        return Job(path.stem, file.graph, {streams[0]: source})
    sources = _sources(file, path, rows_per_epoch)
    if missing := [stream for stream in streams if stream not in sources]:
        raise GraphError(f"{path} has no dataset for stream {missing[0]!r}; add one below 'datasets', or use --source")
    return Job(path.stem, file.graph, sources)


def _sources(file: GraphFile, path: Path, rows_per_epoch: int | None) -> dict[str, Source]:
    """The sources of the streams that queries read."""
    read = tuple(file.graph.streams)
    sources: dict[str, Source] = {}
    for dataset in file.datasets:
        if dataset.format:
            stream = _stream_of(dataset, file, read)
            if stream in sources:
                dataset.part.fail(f"stream {stream!r} already has another dataset")
            directory = str(path.parent / dataset.file)
            if stream in read:
                kept: Any = dataset.format
                unit: Any = dataset.time_unit
                sources[stream] = Files(
                    directory, kept, rows_per_epoch=rows_per_epoch, follow=dataset.follow, time_unit=unit
                )
    mixed = [dataset for dataset in file.datasets if dataset.type]
    rest = [stream for stream in read if stream not in sources]
    if mixed and not rest:
        mixed[0].part.fail(f"each of the streams {', '.join(read)} already has another dataset")
    if mixed:
        for stream, parts in _split(mixed, file, path.parent, rest).items():
            sources[stream] = Files(str(parts), rows_per_epoch=rows_per_epoch, follow=False, time_unit="us")
    return sources


def _stream_of(dataset: Dataset, file: GraphFile, read: Sequence[str]) -> str:
    if not dataset.stream:
        if len(read) != 1:
            dataset.part.fail(f"a dataset with a format must name its stream, one of {', '.join(read)}")
        return read[0]
    by_id = {definition.id: name for name, definition in file.streams.items() if definition.id}
    name = by_id.get(dataset.stream, dataset.stream)
    if name not in read and name not in file.streams:
        known = ", ".join(dict.fromkeys((*read, *file.streams)))
        dataset.part.fail(f"there is no stream {dataset.stream!r}; there are {known}")
    return name


def _split(mixed: Sequence[Dataset], file: GraphFile, base: Path, read: Sequence[str]) -> dict[str, Path]:
    """Directories with the rows of each stream; created if they do not exist."""
    definitions = {each.id: each for each in file.streams.values() if each.id}
    known = [[str((base / each.file).absolute()), *_status(base / each.file, each)] for each in mixed]
    streams = [[id_, each.name, dict(each.columns), each.time, each.tick_ns] for id_, each in definitions.items()]
    described = json.dumps([known, streams, sorted(read)])
    digest = hashlib.sha256(described.encode()).hexdigest()[:16]
    parent = Path(tempfile.gettempdir()) / f"shoal-datasets-{os.getuid()}"
    target = private_directory(parent, "directory for split datasets") / digest
    if not target.is_dir():
        unfinished = Path(tempfile.mkdtemp(dir=target.parent))
        try:
            for number, dataset in enumerate(mixed):
                _write_parts(dataset, base / dataset.file, definitions, read, unfinished, number)
            _put(unfinished, target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return {directory.name: directory for directory in sorted(target.iterdir())}


def _status(path: Path, dataset: Dataset) -> tuple[int, int]:
    if not path.is_file():
        dataset.part.fail(f"there is no file {path}")
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _put(unfinished: Path, target: Path) -> None:
    try:
        unfinished.rename(target)
    except OSError:  # another process was faster and wrote the same files
        if not target.is_dir():
            raise


def _write_parts(
    dataset: Dataset,
    path: Path,
    definitions: Mapping[str, StreamDefinition],
    read: Sequence[str],
    directory: Path,
    number: int,
) -> None:
    """Write the rows of every stream that queries read; values stay texts and are checked by the source."""
    rows = csv_rows(path) if dataset.type == "csv" else yaml_rows(path, definitions)
    parts = {each.id: _Part(each, directory / each.name, number) for each in definitions.values() if each.name in read}
    try:
        for at, stream, values in rows:
            if stream not in definitions:
                raise SourceError(
                    f"{path} {at}: there is no stream {stream!r}; there are {', '.join(definitions) or 'none'}"
                )
            if len(values) != len(definitions[stream].columns):
                raise SourceError(
                    f"{path} {at}: a row of stream {stream} ({definitions[stream].name}) must have "
                    f"{len(definitions[stream].columns)} fields after its stream id; got {len(values)}"
                )
            if stream in parts:
                parts[stream].add(values)
    finally:
        for part in parts.values():
            part.close()


class _Part:
    """The rows of one stream from one dataset."""

    def __init__(self, definition: StreamDefinition, directory: Path, number: int) -> None:
        self._definition = definition
        self._path = directory / f"part-{number:04d}.parquet"
        self._number = number
        self._schema = pa.schema([(name, pa.string()) for name in definition.columns])
        self._rows: list[Row] = []
        directory.mkdir(exist_ok=True)
        self._writer = pq.ParquetWriter(self._path, self._schema)

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) == ROW_GROUP_ROWS:
            self._write()

    def close(self) -> None:
        if self._rows:
            self._write()
        self._writer.close()
        os.utime(self._path, (self._number, self._number))  # the same file in every run, read in the datasets' order

    def _write(self) -> None:
        columns = dict(zip(self._schema.names, map(list, zip(*self._rows, strict=True)), strict=True))
        definition = self._definition
        for name, type_ in definition.columns.items():
            if not type_.startswith("string"):
                columns[name] = [text or None for text in columns[name]]
        if definition.tick_ns is not None:
            columns[definition.time] = [ticks_as_us(text, definition.tick_ns) for text in columns[definition.time]]
        self._writer.write_table(pa.table(columns, self._schema))
        self._rows = []


def ticks_as_us(text: str | None, tick_ns: int) -> str | None:
    """Ticks as microseconds; a text that is no integer is kept, and becomes a dead letter later."""
    try:
        return text and str(int(text) * tick_ns // _NANOSECONDS)
    except ValueError:
        return text


def csv_rows(path: Path) -> Iterator[tuple[str, str, Row]]:
    """Position in the file, stream id and fields of every row."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, skipinitialspace=True)
        try:
            for record in reader:
                if record:
                    yield f"line {reader.line_num}", record[0].strip(), record[1:]
        except (csv.Error, UnicodeDecodeError) as error:
            raise SourceError(f"{path} line {reader.line_num}: this is not CSV: {error}") from error


def yaml_rows(path: Path, definitions: Mapping[str, StreamDefinition]) -> Iterator[tuple[str, str, Row]]:
    """The same from `cepevents: [{stream-id, attributes: [{name, value}]}]`."""
    try:
        events: Iterable[Any] = yaml.load(path.read_bytes(), yaml.BaseLoader)["cepevents"]
        for number, event in enumerate(events):
            stream = str(event["stream-id"])
            values = {str(each["name"]): each["value"] for each in event["attributes"]}
            columns = definitions[stream].columns if stream in definitions else values
            if unknown := [name for name in values if name not in columns]:
                raise SourceError(f"{path} event {number}: stream {stream} has no field {unknown[0]!r}")
            yield f"event {number}", stream, [values.get(name) for name in columns]
    except yaml.YAMLError as error:
        raise SourceError(f"{path}: this is not YAML: {' '.join(str(error).split())}") from error
    except (KeyError, TypeError) as error:
        raise SourceError(
            f"{path} must be of the form cepevents: [{{stream-id, attributes: [{{name, value}}]}}]; got {error!r}"
        ) from error
