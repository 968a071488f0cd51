"""Copies: a copy of a state, and what has changed in the state since."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.kernels.columns.block import Column, as_column
from shoal.kernels.columns.identity import ids_of
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import NEVER_US, Kernel, State
from shoal.model.control.fragment import Fragments, Ids
from shoal.runtimes.migration.piece import Piece


@dataclass(frozen=True, eq=False)
class Difference:
    """What turns a copy into the state of a later time: fragments to remove, and those to add.

    `expired`: how many of the removed ones, the first, the target finds itself, since their deadline has passed.
    """

    removed: Ids
    added: Piece
    expired: int = 0

    @property
    def listed_bytes(self) -> int:
        """Bytes of the ids that the target cannot find itself."""
        return self.removed[self.expired :].nbytes

    @property
    def nbytes(self) -> int:
        """Bytes to send: the added fragments, and the ids of the removed ones that have not expired."""
        return self.added.nbytes + self.listed_bytes

    def applied(self, kernel: Kernel, copy: Piece) -> Piece:
        """The later state, as one piece."""
        state = State(dict(copy.tables), self.added.watermark_us)
        kernel.extract(state, self.removed)
        kernel.absorb(state, self.added.tables)
        return Piece(kernel.fragments(state), state.tables, self.added.watermark_us)


@dataclass(frozen=True, eq=False)
class StateCopy:
    """A copy of a state, with a digest of the content of each fragment."""

    piece: Piece
    digests: Ids

    @classmethod
    def of(cls, kernel: Kernel, state: State) -> "StateCopy":
        """A copy of all fragments; the state stays as it is."""
        copy = State(dict(state.tables), state.watermark_us)
        fragments = kernel.fragments(copy)
        piece = Piece(fragments, copy.tables, state.watermark_us)
        return cls(piece, digests(kernel, piece.tables, fragments))

    @classmethod
    def nothing(cls, kernel: Kernel) -> "StateCopy":
        """A copy of an empty state."""
        return cls.of(kernel, State({}, NEVER_US))

    def difference(self, kernel: Kernel, now: Piece) -> Difference:
        """What has changed up to `now`, a piece with everything that is in the state."""
        ours, theirs = self.piece.fragments.ids, now.fragments.ids
        place = np.argsort(theirs)
        spot = np.minimum(np.searchsorted(theirs, ours, sorter=place), max(0, theirs.size - 1))
        found = place[spot] if theirs.size else np.zeros(ours.size, np.int64)
        there = theirs[found] == ours if theirs.size else np.zeros(ours.size, bool)
        same = there.copy()
        same[there] = digests(kernel, now.tables, now.fragments)[found[there]] == self.digests[there]
        changed = ~np.isin(theirs, ours[same])
        whole = State(dict(now.tables), now.watermark_us)
        added = now.fragments.where(changed)
        expired = self.piece.fragments.deadline_us <= now.watermark_us
        if (expired & there).any():  # the target could not tell them from those that are gone
            expired[:] = False
        removed = np.concatenate([ours[~same & expired], ours[~same & ~expired]])
        piece = Piece(added, kernel.extract(whole, added.ids), now.watermark_us)
        return Difference(removed, piece, int(expired.sum()))


def digests(kernel: Kernel, tables: Tables, fragments: Fragments) -> Ids:
    """A hash of the content of each fragment: of all columns of its rows, in any order."""
    place = np.argsort(fragments.ids)
    found = np.zeros(len(fragments), np.uint64)
    for number, table in tables.items():
        if len(table):
            columns = [each for column in table.to_arrow().columns for each in _hashable(column)]
            content = ids_of(number, columns, len(table))
            rows = place[np.searchsorted(fragments.ids, kernel.row_ids(number, table), sorter=place)]
            np.add.at(found, rows, content)
    return found


def _hashable(column: pa.Array) -> Iterator[Column]:
    """A column of a table as columns of numbers, texts or lists of these."""
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        for place in range(kind.list_size):
            yield as_column(column.flatten()[place :: kind.list_size])
    elif pa.types.is_large_binary(kind):
        yield column.cast(pa.large_string())
    elif pa.types.is_large_list(kind):
        yield column
    elif not pa.types.is_null(kind):
        yield as_column(column)
