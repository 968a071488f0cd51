"""Departure: the source's side of a migration. It processes what it still has, and gives the rest away."""

from collections.abc import Callable

import numpy as np

from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import Kernel, State, concat_blocks
from shoal.model.control.fragment import Fragments, Ids
from shoal.runtimes.migration.piece import Piece
from shoal.runtimes.migration.state_copy import Difference, StateCopy

Listing = Callable[[State], Fragments]
"""Lists the fragments of a state, each with its utility."""


class Departure:
    """A state that leaves in pieces, between any two blocks."""

    def __init__(
        self, kernel: Kernel, state: State, replica: StateCopy | None = None, listing: Listing | None = None
    ) -> None:
        """Everything is still here; `replica`: an older copy of it, elsewhere. `listing`: by default the kernel's."""
        self.kernel, self.state = kernel, state
        self._listing = listing or kernel.fragments
        self._copied = replica
        self._listed: tuple[Tables, int, Fragments] | None = None
        self._before: Ids | None = None

    @property
    def fragments(self) -> Fragments:
        """What is still here; listed once for every version of the state."""
        state, known = self.state, self._listed
        if known is None or known[0] is not state.tables or known[1] != state.watermark_us:
            known = self._listed = state.tables, state.watermark_us, self._listing(state)
        return known[2]

    def rows(self, port: int, block: Block) -> Block:
        """Process rows; returns the late ones."""
        return self.kernel.process(self.state, block, port)

    def advance(self, watermark_us: int) -> Block:
        """Advance the watermark; returns the results that are due."""
        return self.kernel.close_until(self.state, watermark_us)

    def ready(self) -> Block:
        """The results of rows that were processed since the watermark last advanced."""
        results, self.state.results = concat_blocks(self.state.results), []
        return results

    def whole(self) -> Piece:
        """Everything that is still here, which stays here."""
        return Piece(self.fragments, dict(self.state.tables), self.state.watermark_us)

    def take(self, ids: Ids | None = None) -> Piece:
        """Give some fragments away, or all that are left; those that are gone by now are left out."""
        here = self.fragments
        chosen = here if ids is None else here.where(np.isin(here.ids, ids))
        if ids is not None and len(chosen):  # in the order in which they were asked for
            place = np.argsort(ids)
            chosen = chosen.take(np.argsort(place[np.searchsorted(ids, chosen.ids, sorter=place)], kind="stable"))
        piece = Piece(chosen, self.kernel.extract(self.state, chosen.ids), self.state.watermark_us)
        left = here.where(~np.isin(here.ids, chosen.ids))
        self._listed = self.state.tables, self.state.watermark_us, left
        return piece

    def take_keys(self, keys: Ids) -> Piece:
        """Give all fragments of some keys away, whatever has become of them since they were listed."""
        here = self.fragments
        return self.take(here.ids[np.isin(here.key, keys)])

    def copy(self) -> Piece:
        """A copy of everything, for a preamble or a replica; `difference` then says what has changed since."""
        self._copied = StateCopy.of(self.kernel, self.state)
        return self._copied.piece

    def replica(self) -> Piece:
        """The copy that was made before."""
        if self._copied is None:
            raise ValueError("there is no replica")
        return self._copied.piece

    def difference(self) -> Difference:
        """What has changed since the copy; everything if there is none. The state is gone afterwards."""
        copied = self._copied or StateCopy.nothing(self.kernel)
        return copied.difference(self.kernel, self.take())

    def duplicate(self) -> None:
        """Events also go to the target from now on; see `expired`."""
        self._before = self.fragments.ids

    @property
    def expired(self) -> bool:
        """Whether nothing is left of the state at the time of `duplicate`."""
        if self._before is None:
            raise ValueError("no events have been duplicated yet")
        return not np.isin(self.fragments.ids, self._before).any()
