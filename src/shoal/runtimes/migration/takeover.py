"""Takeover: the target's side of a migration. It processes the events that it has all state for; others wait."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block
from shoal.kernels.kernel import NO_RESULTS, Kernel, State
from shoal.model.control.fragment import Fragments, Ids
from shoal.runtimes.migration.piece import HeldRows, Piece

NO_KEYS: Ids = np.zeros(0, np.uint64)


class Receiver(Protocol):
    """A target that has some of its state."""

    state: State

    def rows(self, port: int, block: Block) -> Block:
        """Take rows; returns the late ones. Those that need state which is not here wait."""

    def advance(self, watermark_us: int) -> Block:
        """Advance the watermark; returns the results that can be decided."""

    def arrive(self, piece: Piece) -> Block:
        """Take state; returns the results that waited for it."""

    def end(self) -> Block:
        """No more state comes; returns the results that waited for some. `state` then is all there is."""

    @property
    def wanted(self) -> Ids:
        """The keys that rows wait for."""

    @property
    def held(self) -> int:
        """How many rows wait."""


class BufferedTakeover:
    """A target that buffers everything until its state is complete, or no more comes."""

    def __init__(self, kernel: Kernel, watermark_us: int) -> None:
        """Nothing is here yet; the watermark is that of the redirection of events."""
        self.kernel = kernel
        self.state = State(watermark_us=watermark_us)
        self._watermark_us = watermark_us
        self._waiting = HeldRows(kernel)

    @property
    def wanted(self) -> Ids:
        """Nothing is fetched."""
        return NO_KEYS

    @property
    def held(self) -> int:
        """How many rows wait."""
        return self._waiting.number

    def rows(self, port: int, block: Block) -> Block:
        """Buffer rows; returns the late ones."""
        late = self.kernel.late(port, block, self._watermark_us)
        self._waiting.add(port, block.where(~late))
        return block.take(np.flatnonzero(late))

    def advance(self, watermark_us: int) -> Block:
        """Remember the watermark."""
        self._watermark_us = max(self._watermark_us, watermark_us)
        return NO_RESULTS

    def arrive(self, piece: Piece) -> Block:
        """Take state."""
        self.kernel.absorb(self.state, piece.tables)
        return NO_RESULTS

    def end(self) -> Block:
        """Process what was buffered on top of the state that is here; returns the results."""
        for port, block in self._waiting.taken(None):
            self.kernel.process(self.state, block, port)
        return self.kernel.close_until(self.state, self._watermark_us)


class KeyedTakeover:
    """A target that gets state key by key.

    A row waits while state of its key may still come: until the source has said which keys have state (`tell`), any key
    may have some, until it arrives or `end` is called.
    """

    def __init__(self, kernel: Kernel, watermark_us: int) -> None:
        """Nothing is here yet; the watermark is that of the redirection of events."""
        self.kernel = kernel
        self.state = State(watermark_us=watermark_us)
        self._base_us = watermark_us
        self._waiting = HeldRows(kernel)
        self._here = NO_KEYS
        self._missing: Fragments | None = None
        self._open = True

    def tell(self, missing: Fragments) -> Block:
        """The source says which fragments will follow; rows of other keys need not wait any more."""
        self._missing = missing
        waiting = self._waiting.keys
        return self._released(Piece(Fragments.none(), {}, self._base_us), waiting[self._present(waiting)])

    @property
    def wanted(self) -> Ids:
        """The keys that rows wait for."""
        return self._waiting.keys

    @property
    def held(self) -> int:
        """How many rows wait."""
        return self._waiting.number

    def rows(self, port: int, block: Block) -> Block:
        """Process the rows whose state is here; returns the late ones."""
        late = self.kernel.late(port, block, self.state.watermark_us)
        refused, timely = block.take(np.flatnonzero(late)), block.where(~late)
        if timely.length:
            here = self._present(self.kernel.row_keys(port, timely))
            if here.any():
                self.kernel.process(self.state, timely.where(here), port)
            self._waiting.add(port, timely.where(~here))
        return refused

    def advance(self, watermark_us: int) -> Block:
        """Advance the watermark of the keys that are here; returns their results."""
        return self.kernel.close_until(self.state, watermark_us)

    def arrive(self, piece: Piece) -> Block:
        """Take all state of some keys, then the rows that waited for it; returns the results, which may be late.

        The state of a key must come in one piece.
        """
        keys = np.unique(piece.fragments.key)
        if self._missing is not None:
            self._missing = self._missing.where(~np.isin(self._missing.key, keys))
        return self._released(piece, keys)

    def nothing_of(self, keys: Ids) -> Block:
        """The source has no state of some keys; returns the results that waited for that answer."""
        return self._released(Piece(Fragments.none(), {}, self._base_us), keys)

    def end(self) -> Block:
        """No more state comes; returns the results of the rows that still waited."""
        self._open = False
        self._missing = None
        return self._released(Piece(Fragments.none(), {}, self._base_us), None)

    def _present(self, keys: Ids) -> NDArray[np.bool_]:
        """Whether all state of each key is here."""
        if not self._open:
            return np.ones(keys.size, bool)
        if self._missing is not None:
            return ~np.isin(keys, self._missing.key)
        return np.isin(keys, self._here)

    def _released(self, piece: Piece, keys: Ids | None) -> Block:
        """Process the rows of some keys, or all, on top of their state, and join both with what is here."""
        part = State(dict(piece.tables), piece.watermark_us)
        for port, block in self._waiting.taken(keys):
            self.kernel.process(part, block, port)
        results = self.kernel.close_until(part, self.state.watermark_us)
        if part.tables:
            self.kernel.absorb(self.state, part.tables)
        if keys is not None:
            self._here = np.union1d(self._here, keys)
        return results


class TimedTakeover:
    """A target that gets state by the time at which it is needed, of all keys, for kernels that let rows wait.

    Rows are added to whatever is here. The watermark is held back before the first time that a missing fragment is
    needed, so results are complete.
    """

    def __init__(self, kernel: Kernel, watermark_us: int, missing: Fragments) -> None:
        """Nothing is here yet; `missing` is everything that the source has."""
        if kernel.on_arrival:
            raise ValueError("rows of this kernel must not be processed before all state of their key is here")
        self.kernel = kernel
        self.state = State(watermark_us=watermark_us)
        self.watermark_us = watermark_us
        self._missing = missing

    @property
    def wanted(self) -> Ids:
        """No row waits; results do."""
        return NO_KEYS

    @property
    def held(self) -> int:
        """No row waits."""
        return 0

    @property
    def overdue(self) -> Fragments:
        """The missing fragments that results wait for."""
        return self._missing.where(self._missing.needed_us <= self.watermark_us)

    def rows(self, port: int, block: Block) -> Block:
        """Add rows; returns the late ones."""
        late = self.kernel.late(port, block, self.watermark_us)
        self.kernel.process(self.state, block.where(~late), port)
        return block.take(np.flatnonzero(late))

    def advance(self, watermark_us: int) -> Block:
        """Advance the watermark as far as everything is here; returns the results."""
        self.watermark_us = max(self.watermark_us, watermark_us)
        limit_us = int(self._missing.needed_us.min()) - 1 if len(self._missing) else self.watermark_us
        return self.kernel.close_until(self.state, min(self.watermark_us, limit_us))

    def arrive(self, piece: Piece) -> Block:
        """Take state; returns the results that waited for it."""
        self._missing = self._missing.where(~np.isin(self._missing.ids, piece.fragments.ids))
        self.kernel.absorb(self.state, piece.tables)
        return self.advance(self.watermark_us)

    def end(self) -> Block:
        """No more state comes; returns the results that waited for some."""
        self._missing = Fragments.none()
        return self.advance(self.watermark_us)


class SilentTakeover:
    """A target that receives what the source receives and emits nothing until it takes over.

    With state to come (`waits`), everything is buffered until it arrives.
    """

    def __init__(self, kernel: Kernel, watermark_us: int, *, waits: bool) -> None:
        """Events are duplicated from now on."""
        self.kernel = kernel
        self.state = State(watermark_us=watermark_us)
        self._waiting = HeldRows(kernel)
        self._waits = waits
        self.watermark_us = watermark_us

    @property
    def wanted(self) -> Ids:
        """No row waits for a key."""
        return NO_KEYS

    @property
    def held(self) -> int:
        """How many rows wait for state."""
        return self._waiting.number

    def rows(self, port: int, block: Block) -> Block:
        """Take rows, silently; returns no late ones, since the source refuses them."""
        timely = block.where(~self.kernel.late(port, block, self.watermark_us))
        if self._waits:
            self._waiting.add(port, timely)
        else:
            self.kernel.process(self.state, timely, port)
        return block.take(np.zeros(0, np.int64))

    def advance(self, watermark_us: int) -> Block:
        """Advance the watermark, silently."""
        self.watermark_us = max(self.watermark_us, watermark_us)
        if not self._waits:
            self.kernel.close_until(self.state, watermark_us)
        return NO_RESULTS

    def arrive(self, piece: Piece) -> Block:
        """Take the state of the time of duplication, and catch up."""
        self.kernel.absorb(self.state, piece.tables)
        self._waits = False
        for port, block in self._waiting.taken(None):
            self.kernel.process(self.state, block, port)
        return self.advance(self.watermark_us)

    def end(self) -> Block:
        """Take over: results that the source has emitted are not emitted again."""
        self.state.results = []
        return NO_RESULTS
