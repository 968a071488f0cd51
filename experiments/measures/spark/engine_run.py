"""The measurements of one run of any engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class EngineRun:
    """Rows read, wall and CPU seconds, each epoch's time, the results, and Spark's reports."""

    rows: int
    elapsed_s: float
    cpu_s: float
    epochs_s: tuple[float, ...] = ()
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    reports: tuple[Any, ...] = ()

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.elapsed_s
