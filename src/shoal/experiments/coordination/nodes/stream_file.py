"""Streams written to CSV files, as they pass a node."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv


class StreamFile:
    """A CSV file with a header; the columns are those of the first rows."""

    def __init__(self, path: Path) -> None:
        """Create the file, empty."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")
        self._writer: pacsv.CSVWriter | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows."""
        if self._writer is None:
            self._writer = pacsv.CSVWriter(self._file, rows.schema)
        self._writer.write_batch(rows)

    def close(self) -> None:
        """Write what is left; called once more it does nothing."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._file.close()
