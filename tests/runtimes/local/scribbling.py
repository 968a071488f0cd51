"""Channels that overwrite memory as soon as their reader must no longer use it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from shoal.runtimes.local.dataflow.channel import Channel, Packet


class Scribbling(Channel):
    """A channel that always does what a fast writer does sometimes."""

    _before: Packet | None = None

    def read(self, most: int) -> Packet | None:
        if self._before is not None and self._before.shared:
            for column in self._before.block.columns.values():
                scribble(column)
        self._before = super().read(most)
        return self._before


def scribble(column: Any) -> None:
    """Replace all values by others."""
    column[:] = ~column if column.dtype.kind in "bi" else np.nan


@contextmanager
def scribbled() -> Iterator[None]:
    """Local runs started inside have only such channels."""
    with patch("shoal.runtimes.local.dataflow.wiring.Channel", Scribbling):
        yield
