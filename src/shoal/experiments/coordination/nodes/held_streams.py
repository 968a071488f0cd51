"""Streams that are buffered or stopped at a node: their rows are kept, and go on in order when the streams do.

>>> held, gone_on = HeldStreams(), []
>>> held.hold([3])
>>> for rows in ("a", "b"):
...     held.pass_or_keep(3, rows, lambda stream, rows: gone_on.append(rows))
>>> gone_on
[]
>>> held.resume([3])
>>> gone_on
['a', 'b']
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

GoOn = Callable[[int, Any], object]
"""What happens to rows of a stream that is not held."""


class HeldStreams:
    """May be used by several threads. Rows of a stream that come while kept ones go on are kept, too, behind them."""

    def __init__(self) -> None:
        """No stream is held."""
        self._kept: dict[int, list[tuple[GoOn, Any]]] = {}
        self._lock = threading.Lock()
        self._resuming = threading.Lock()

    def hold(self, streams: Iterable[int]) -> None:
        """Keep rows of streams from now on."""
        with self._lock:
            for stream in streams:
                self._kept.setdefault(stream, [])

    def pass_or_keep(self, stream: int, rows: Any, go_on: GoOn) -> None:
        """Let rows go on, or keep them until they may."""
        with self._lock:
            if stream in self._kept:
                self._kept[stream].append((go_on, rows))
                return
        go_on(stream, rows)

    def resume(self, streams: Iterable[int]) -> None:
        """Let the rows of streams go on, kept ones first, each where it was kept; returns when all of these have."""
        with self._resuming:  # two that resume one stream would mix its rows
            for stream in streams:
                while kept := self._taken(stream):
                    for go_on, rows in kept:
                        go_on(stream, rows)

    def _taken(self, stream: int) -> list[tuple[GoOn, Any]]:
        """The rows that are kept; if there are none, the stream is no longer held."""
        with self._lock:
            kept = self._kept.pop(stream, [])
            if kept:
                self._kept[stream] = []
            return kept
