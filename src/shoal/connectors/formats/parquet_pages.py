"""Pages of Parquet files: what their headers say about the values in them, without decoding one.

A column chunk is a sequence of pages, each behind a header in Thrift's compact protocol, of which pyarrow shows none.
Writers put a few thousand rows into a page, and often the smallest and largest value into its header.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HEADER_BYTES = 512
"""More than the header of a page of integers takes."""
_TYPE, _COMPRESSED_BYTES, _DATA, _DATA_2 = 1, 3, 5, 8
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_2 = 0, 2, 3
_VALUES = 1
_STATISTICS = {_DATA: 5, _DATA_2: 8}
_MAX, _MIN = 5, 6
"""Numbers of fields and types in the format's `parquet.thrift`."""
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
"""Types of the compact protocol."""


@dataclass(frozen=True)
class Page:
    """The number of values of a page of 64-bit integers, nulls included, and the smallest and the largest."""

    values: int
    low: int
    high: int


def integer_pages(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> Sequence[Page] | None:
    """The pages of a column of 64-bit integers in a row group; None unless every header says what is in its page."""
    if chunk.physical_type != "INT64":
        return None
    try:
        pages = list(_pages(file, chunk))
    except (LookupError, ValueError, struct.error):  # a header of another form than the format's
        return None
    return pages if sum(page.values for page in pages) == chunk.num_values else None


def _pages(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> Iterator[Page]:
    at = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    end = at + chunk.total_compressed_size
    while at < end:
        header = _Compact(file.read_at(min(HEADER_BYTES, end - at), at))
        fields = header.struct()
        at += header.at + fields[_COMPRESSED_BYTES]
        if fields[_TYPE] == _DICTIONARY_PAGE:
            continue
        data = {_DATA_PAGE: _DATA, _DATA_PAGE_2: _DATA_2}[fields[_TYPE]]
        known = fields[data][_STATISTICS[data]]
        (low,), (high,) = struct.unpack("<q", known[_MIN]), struct.unpack("<q", known[_MAX])
        yield Page(fields[data][_VALUES], low, high)


class _Compact:
    """A reader of values in Thrift's compact protocol; `at`: the position behind what was read."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def struct(self) -> dict[int, Any]:
        """The fields of a struct by their numbers."""
        fields: dict[int, Any] = {}
        number = 0
        while first := self._byte():
            step, type_ = first >> 4, first & 15
            number = number + step if step else self._integer()
            fields[number] = type_ == _TRUE if type_ in (_TRUE, _FALSE) else self._value(type_)
        return fields

    def _value(self, type_: int) -> Any:
        if type_ in (_I16, _I32, _I64):
            return self._integer()
        if type_ == _BINARY:
            return self._bytes(self._unsigned())
        if type_ == _STRUCT:
            return self.struct()
        if type_ == _BYTE:
            return self._byte()
        if type_ == _DOUBLE:
            return self._bytes(8)
        raise ValueError(f"a page header has no value of type {type_}")

    def _integer(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def _unsigned(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _bytes(self, length: int) -> bytes:
        self.at += length
        if length < 0 or self.at > len(self._content):
            raise ValueError("a page header ends too early")
        return self._content[self.at - length : self.at]
