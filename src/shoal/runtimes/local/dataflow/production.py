"""Production: slices of a generated stream that several workers make at the same time, and the source sends in order.

1. The source offers the slices between two offsets. The first is its own; the others may be begun by anybody.
2. While the source is in a turn and nothing else is to be done, other workers run its helpers, each of which makes one
   slice per turn.
3. The source takes what was made in the order of the stream. It makes the next slice itself if nobody has begun it. If
   another worker makes it at present, the source is not ready until that is done.

Everything else of a source, as its watermark and what is late, is decided where slices are taken, in order.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from shoal.connectors.sources.source import Slice
from shoal.kernels.kernel import NEVER_US
from shoal.runtimes.local.dataflow.node import Node

LEAST_ROWS = 32_768
"""Fewest events of a slice that are worth a turn of a helper."""
BEGUN = 3
"""The most slices that are begun and not taken, with one helper."""

Made = TypeVar("Made")


class _Piece(Generic[Made]):
    """A slice, and what was made of it; nobody but the source makes its own."""

    __slots__ = ("made", "own", "slice")

    def __init__(self, slice_: Slice, *, own: bool) -> None:
        self.slice = slice_
        self.own = own
        self.made: Made | None = None


class Production(Generic[Made]):
    """The slices that a source has offered and not taken; only its worker may offer and take, any may `help`.

    `make` is called by several threads at the same time if there are helpers.
    """

    def __init__(self, make: Callable[[Slice], Made], helpers: int = 0) -> None:
        """Nothing is offered yet."""
        self._make = make
        self._helpers = helpers
        self.in_turn = False
        """Whether the source is in a turn, so that others may help it."""
        self._in_order: deque[_Piece[Made]] = deque()
        self._open: deque[_Piece[Made]] = deque()

    @property
    def needs_help(self) -> bool:
        """Whether there is a slice to begin, and not too many are under way."""
        return bool(self._open) and len(self._in_order) - len(self._open) < BEGUN - 1 + self._helpers

    @property
    def stuck(self) -> bool:
        """Whether the source can do nothing before a helper is done."""
        try:
            first = self._in_order[0]
        except IndexError:
            return False
        return not self._open and not first.own and first.made is None

    def offer(self, slices: Sequence[Slice]) -> None:
        """Add slices behind those offered before; small ones are for the source alone."""
        helped = self._helpers and min((each.rows for each in slices), default=0) >= LEAST_ROWS
        pieces = [_Piece[Made](each, own=not helped or not number) for number, each in enumerate(slices)]
        self._in_order.extend(pieces)
        self._open.extend(piece for piece in pieces if not piece.own)

    def help(self) -> bool:
        """Make the next slice that nobody has begun; returns whether there was one."""
        try:
            piece = self._open.popleft()
        except IndexError:
            return False
        piece.made = self._make(piece.slice)
        return True

    def take(self) -> Made | None:
        """What was made of the next slice in order; None if another worker makes it at present."""
        first = self._in_order[0]
        if first.own:
            first.made = self._make(first.slice)
        elif first.made is None:
            self.help()
        if first.made is not None:
            self._in_order.popleft()
        return first.made


class Helper(Node):
    """Makes slices for a source that is in a turn; it has no inputs and no outputs."""

    is_source = True

    def __init__(self, stream: str, production: Production[Made]) -> None:
        """A helper of the source of a stream."""
        super().__init__(f"helper of source {stream}")
        self._production = production

    @property
    def ready(self) -> bool:
        """Whether the source is in a turn and there is a slice to begin."""
        return self._production.in_turn and self._production.needs_help

    @property
    def watermark_us(self) -> int:
        """It reads nothing."""
        return NEVER_US

    def turn(self, events: int) -> int:  # noqa: ARG002
        """Make one slice; its events are counted by the source."""
        self._production.help()
        return 0
