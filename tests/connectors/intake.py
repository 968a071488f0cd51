"""Read a file without a runtime: through its source and admission, refused rows as dead letters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

from shoal.connectors.admission import admit, dead_letters
from shoal.connectors.sources.files import Files
from shoal.connectors.sources.source import BadFile, Wanted, rows_of
from shoal.kernels.columns.block import arrow_schema
from shoal.model.query.schema import Schema

Format = Literal["parquet", "arrow", "csv"]
COLUMNAR: tuple[Format, ...] = ("parquet", "arrow")


@dataclass
class Taken:
    """What became of the rows of some files."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    letters: list[dict[str, str]] = field(default_factory=list)
    bad: list[BadFile] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        return [letter["reason"] for letter in self.letters]


def write(path: Path, columns: Mapping[str, Any] | str | bytes, **options: Any) -> None:
    """A file in the format its name says; texts and bytes are written as they are."""
    if isinstance(columns, str | bytes):
        path.write_bytes(columns.encode() if isinstance(columns, str) else columns)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path, **options)
    else:
        feather.write_feather(pa.table(columns), str(path), **options)


def take_in(
    directory: Path,
    schema: Mapping[str, str],
    *,
    format_: Format,
    on_bad_file: Literal["fail", "dead-letter"] = "fail",
    columns: Sequence[str] = (),
    read: Sequence[str] = (),
    not_after_us: int | None = None,
) -> Taken:
    """All files of a directory, the time being the first column of the schema; with `read`, others are checked only."""
    source = Files(str(directory), format=format_, follow=False, on_bad_file=on_bad_file)
    full = arrow_schema(Schema.of(schema))
    expected = pa.schema([full.field(name) for name in read or columns or schema])
    wanted = Wanted.of(full, expected.names) if read else Wanted(tuple(expected.names), pa.schema([]))
    cursor = source.cursor(str(directory / "_cursor"))
    taken, at = Taken(), source.start()
    while not at["ended"]:
        end = cursor.latest(at)
        for piece in cursor.slices(at, end, 2):
            for raw in rows_of(source, piece, wanted):
                if isinstance(raw, BadFile):
                    taken.bad.append(raw)
                    continue
                admitted = admit(raw, expected, expected.names[0], not_after_us, wanted.checked)
                admitted.batch.validate(full=True)
                taken.rows += admitted.batch.to_pylist()
                taken.letters += dead_letters("cars", raw, admitted.refusals).to_pylist()
        at = end
    return taken
