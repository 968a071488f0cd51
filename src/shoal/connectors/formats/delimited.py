"""CSV files: a header line, then rows; a malformed row does not affect the others."""

import codecs
import contextlib
import csv
import re
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from shoal.connectors.sources.source import RawBatch, Wanted, column_fault

ROW_BYTES = 40
"""Assumed length of a row: rows are not counted before they are read."""
BLOCK_BYTES = 8 << 20
"""Bytes parsed at a time, and so the longest row possible."""
LINE = "line"
"""Column that holds a row that cannot be split into columns."""

_CHUNK_BYTES = 1 << 20
_RELEASE_S = 5.0
"""The longest wait for Arrow's threads after a file, which they leave within microseconds."""
_LARGEST_BLOCK_BYTES = 1 << 30
_SURROGATES = re.compile("[\udc80-\udcff]")
_STAND_IN = 0x10FE00
_STAND_INS = "[\U0010fe80-\U0010feff]"
"""Characters of a private area that stand for bytes which are not UTF-8, so that Arrow can parse around them."""


class Csv:
    """CSV files with a header line, in UTF-8, quoted with `"`; the whole file is one unit.

    Every field arrives as text; an empty field is a null, `""` an empty text. Blank lines are skipped.
    Rows with too few or too many fields, or with bytes in a wanted column that are not UTF-8, are malformed.
    A quote that is never closed makes the whole file bad: any number of rows may be inside it.
    """

    suffixes = (".csv",)

    def units(self, path: str) -> list[int]:
        """One unit; its number of rows is estimated from the file's size."""
        _header(path)
        return [max(1, Path(path).stat().st_size // ROW_BYTES)]

    def read(self, path: str, units: Sequence[int], first_row: int, wanted: Wanted) -> Iterator[RawBatch]:
        """The good rows in order, each batch followed by the malformed rows found in it."""
        del units
        names, has_rows = _header(path)
        if fault := column_fault(names, wanted.read):
            raise ValueError(f"it {fault}")
        columns = [*wanted.read, *(name for name in wanted.checked.names if names.count(name) == 1)]
        if not has_rows:
            return
        clean, quotes = _surveyed(path)
        if quotes % 2:
            _check_last_quote(path, len(names))
        rows = _Rows(path, first_row)
        content = path if clean else _in_arrow(_with_stand_ins(path))
        try:
            with contextlib.closing(_open(content, columns, rows.skip)) as batches:
                for batch in batches:
                    for raw in rows.taken(batch):
                        yield from [raw] if clean else _sifted(raw)
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error):
                raise
            raise ValueError(f"a row is longer than {BLOCK_BYTES >> 20} MiB") from error
        for raw in rows.rest():
            yield from [raw] if clean else _sifted(raw)


class _Rows:
    """Numbers the rows of a file, malformed ones included; row 0 follows the header."""

    def __init__(self, path: str, first_row: int) -> None:
        self._path = path
        self._next = first_row
        self._skipped: list[Any] = []

    def skip(self, row: Any) -> str:
        """Record a row with the wrong number of fields; Arrow calls this before it returns the batch around it."""
        self._skipped.append(row)
        return "skip"

    def taken(self, batch: pa.RecordBatch) -> Iterator[RawBatch]:
        """The good rows, then the malformed ones among them."""
        if not self._skipped:
            yield RawBatch(batch, self._path, self._next)
            self._next += batch.num_rows
            return
        malformed = self._numbers()
        every = np.arange(self._next, self._next + batch.num_rows + malformed.size)
        numbers = np.setdiff1d(every, malformed, assume_unique=True)[: batch.num_rows]
        if numbers.size:
            yield RawBatch(batch, self._path, int(numbers[0]), numbers)
            self._next = int(numbers[-1]) + 1
        yield from self._malformed(int(np.searchsorted(malformed, self._next)))

    def rest(self) -> Iterator[RawBatch]:
        """The malformed rows after the last good one."""
        yield from self._malformed(len(self._skipped))

    def _numbers(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Numbers of the skipped rows; Arrow counts from 1 and counts the header."""
        return np.array([row.number - 2 for row in self._skipped], np.int64)

    def _malformed(self, count: int) -> Iterator[RawBatch]:
        numbers = self._numbers()
        alike: dict[str, list[int]] = defaultdict(list)
        for at, row in enumerate(self._skipped[:count]):
            alike[f"the row must have {row.expected_columns} fields; got {row.actual_columns}"].append(at)
        for detail, members in alike.items():
            lines = pa.record_batch({LINE: pa.array([self._skipped[at].text for at in members], pa.string())})
            chosen = numbers[members]
            yield RawBatch(lines, self._path, int(chosen[0]), chosen, detail)
        del self._skipped[:count]


def _header(path: str) -> tuple[list[str], bool]:
    """The names of the columns, and whether any row follows."""
    with Path(path).open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        try:
            names = next((record for record in csv.reader(file) if record), [])
        except csv.Error as error:
            raise ValueError(f"its header is not a line of CSV: {error}") from error
        if not any(names):
            raise ValueError("it has no header line")
        if any(_SURROGATES.search(name) for name in names):
            raise ValueError("its header is not UTF-8 text")
        return names, any(line.strip("\r\n") for line in file)


def _surveyed(path: str) -> tuple[bool, int]:
    """Whether a file is UTF-8 throughout, and how many quotes it has."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    clean, quotes, last = True, 0, False
    with Path(path).open("rb") as file:
        while not last:
            chunk = file.read(_CHUNK_BYTES)
            last = not chunk
            quotes += chunk.count(b'"')
            unfinished = bool(decoder.getstate()[0])
            if clean and (unfinished or not chunk.isascii()):
                try:
                    decoder.decode(chunk, final=last)
                except UnicodeDecodeError:
                    clean = False
    return clean, quotes


def _check_last_quote(path: str, fields: int) -> None:
    """Reject a file that ends inside a quote: a row appended to it must be parsed as a row."""
    mark = b"after the end"
    content = Path(path).read_bytes() + b"\n" + b",".join([mark] * fields) + b"\n"
    rows = _Rows(path, 0)
    convert = pacsv.ConvertOptions(include_columns=["f0"], column_types={"f0": pa.binary()})
    parse = pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=rows.skip)
    block_bytes = min(len(content), _LARGEST_BLOCK_BYTES)
    read = pacsv.ReadOptions(use_threads=False, block_size=block_bytes, autogenerate_column_names=True)
    first = pacsv.read_csv(pa.BufferReader(content), read, parse, convert).column("f0")
    if first[-1].as_py() != mark:
        malformed = sum(lines.batch.num_rows for lines in rows.rest())
        raise ValueError(f"a quote is never closed, in row {len(first) + malformed - 2}")


def _with_stand_ins(path: str) -> bytes:
    text = Path(path).read_bytes().decode("utf-8", errors="surrogateescape")
    return _SURROGATES.sub(lambda found: chr(ord(found[0]) - 0xDC00 + _STAND_IN), text).encode()


def _in_arrow(content: bytes) -> pa.BufferReader:
    """A file in memory of Arrow's own."""
    copied = pa.BufferOutputStream()
    copied.write(content)
    return pa.BufferReader(copied.getvalue())


class _InvalidRowHandler:
    """Called by Arrow's threads with every malformed row; `released` is set once no thread has it any more."""

    def __init__(self, skip: Callable[[Any], str], released: threading.Event) -> None:
        self._skip = skip
        weakref.finalize(self, released.set).atexit = False

    def __call__(self, row: Any) -> str:
        return self._skip(row)


def _open(content: Any, columns: Sequence[str], skip: Callable[[Any], str]) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a file, block by block; when it ends or is closed, no thread of Arrow has a Python object of it.

    Arrow reads one block ahead on its own threads, and they outlive the reader for a moment. A thread that lets go of a
    Python object must take Python's lock, and aborts the process if Python is exiting.
    """
    released = threading.Event()
    reader = _reader(content, columns, _InvalidRowHandler(skip, released))
    try:
        for batch in reader:
            if batch.num_rows:
                yield batch
    finally:
        reader.close()
        del reader
        released.wait(_RELEASE_S)


def _reader(
    content: str | pa.BufferReader, columns: Sequence[str], skip: _InvalidRowHandler
) -> pacsv.CSVStreamingReader:
    convert = pacsv.ConvertOptions(
        include_columns=list(columns),
        column_types=dict.fromkeys(columns, pa.string()),
        check_utf8=False,
        strings_can_be_null=True,
        null_values=[""],
        quoted_strings_can_be_null=False,
    )
    read = pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)
    parse = pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip)
    return pacsv.open_csv(content, read, parse, convert)


def _sifted(raw: RawBatch) -> Iterator[RawBatch]:
    """Separate the rows that contain stand-ins for bytes that are not UTF-8."""
    if raw.malformed:
        yield RawBatch(_with_escapes(raw.batch), raw.where, raw.first_row, raw.numbers, raw.malformed)
        return
    numbers = np.array([raw.number(row) for row in range(raw.batch.num_rows)], np.int64)
    good = np.ones(raw.batch.num_rows, bool)
    refused = []
    for name, column in zip(raw.batch.schema.names, raw.batch.columns, strict=True):
        marked = pc.fill_null(pc.match_substring_regex(column, _STAND_INS), False).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(marked & good)
        good[rows] = False
        if rows.size:
            lines = _with_escapes(raw.batch.take(pa.array(rows)))
            refused.append(
                RawBatch(lines, raw.where, int(numbers[rows[0]]), numbers[rows], f"column {name!r} is not UTF-8")
            )
    if good.any():
        kept = numbers[good]
        yield RawBatch(raw.batch.filter(pa.array(good)), raw.where, int(kept[0]), kept)
    yield from refused


def _with_escapes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace stand-ins by a readable form of their bytes."""

    def shown(text: str | None) -> str | None:
        return text and re.sub(_STAND_INS, lambda found: f"\\x{ord(found[0]) - _STAND_IN:02x}", text)

    columns = [pa.array([shown(text) for text in column.to_pylist()], pa.string()) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
