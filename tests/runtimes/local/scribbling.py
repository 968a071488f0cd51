"""Channels that write over what was read as soon as their reader may no longer look at it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from shoal.runtimes.local.dataflow.channel import Channel, Packet


class Scribbling(Channel):
    """A channel in whose memory nothing stays: what a fast writer makes of it sometimes, made so always."""

    _before: Packet | None = None

    def read(self, most: int) -> Packet | None:
        if self._before is not None and self._before.shared:
            for column in self._before.block.columns.values():
                scribble(column)
        self._before = super().read(most)
        return self._before


def scribble(column: Any) -> None:
    """Other values than there were."""
    column[:] = ~column if column.dtype.kind in "bi" else np.nan


@contextmanager
def scribbled() -> Iterator[None]:
    """Local runs that are started in here have such channels only."""
    with patch("shoal.runtimes.local.dataflow.wiring.Channel", Scribbling):
        yield
