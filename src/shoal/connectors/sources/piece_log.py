"""The pieces of a live stream: rows that were stored when they came, since nobody can ask for them again."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from shoal.errors import CheckpointError
from shoal.storage.directory import Directory

_NAME = re.compile(r"steps-(\d{12})-(\d{12})-(\d+)-([0-9a-f]{16})\.arrow")


@dataclass(frozen=True)
class StoredPiece:
    """Steps `first` to `stop` - 1 of a stream; the digest is that of all steps up to here.

    The file's name says all of this, so that the list of files is the log.

    >>> piece = StoredPiece(0, 20, 1500, "00112233aabbccdd", first_row=0)
    >>> piece.name
    'steps-000000000000-000000000020-1500-00112233aabbccdd.arrow'
    """

    first: int
    stop: int
    rows: int
    digest: str
    first_row: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"steps-{self.first:012d}-{self.stop:012d}-{self.rows}-{self.digest}.arrow"


class PieceLog:
    """Grows by whole pieces, each an Arrow file that appears when it is complete."""

    def __init__(self, directory: Directory) -> None:
        """Read the names of the pieces that an earlier run has stored."""
        self.pieces: list[StoredPiece] = []
        self._directory = directory
        for name in directory.names():
            if name.startswith("steps-"):
                self._load(name)

    @property
    def steps(self) -> int:
        """The number of steps stored."""
        return self.pieces[-1].stop if self.pieces else 0

    @property
    def digest(self) -> str:
        """The digest of all steps stored."""
        return self.pieces[-1].digest if self.pieces else ""

    @property
    def uri(self) -> str:
        """Where the pieces are."""
        return self._directory.uri

    def append(self, steps: Sequence[pa.RecordBatch], digest: str) -> None:
        """Store steps durably; the digest covers all steps up to the last of them."""
        table = pa.Table.from_batches(steps).combine_chunks()
        last = self.pieces[-1] if self.pieces else None
        first_row = 0 if last is None else last.first_row + last.rows
        piece = StoredPiece(self.steps, self.steps + len(steps), table.num_rows, digest, first_row)
        written = pa.BufferOutputStream()
        with pa.ipc.new_file(written, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(table)
        self._directory.write(piece.name, written.getvalue().to_pybytes())
        self.pieces.append(piece)

    def _load(self, name: str) -> None:
        found = _NAME.fullmatch(name)
        first, stop, rows = (int(found[n]) for n in (1, 2, 3)) if found else (-1, -1, 0)
        if found is None or first != self.steps or stop <= first:
            raise CheckpointError(
                f"pieces in {self._directory.uri} must continue with step {self.steps}; got {name}; "
                "restore the missing file from a copy, or start with a new checkpoint directory"
            )
        first_row = self.pieces[-1].first_row + self.pieces[-1].rows if self.pieces else 0
        self.pieces.append(StoredPiece(first, stop, rows, found[4], first_row))


def stored_table(uri: str, name: str) -> pa.Table:
    """The rows of a piece, read on any machine."""
    with pa.ipc.open_file(pa.BufferReader(Directory(uri).require(name))) as file:
        return file.read_all()
