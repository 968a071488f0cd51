"""Admission of one stream in one epoch: rows that fit the schema become blocks, all others dead letters."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from shoal.compiler.program import Program
from shoal.connectors.admission import admit, admitted_rows, dead_letters, file_letter
from shoal.connectors.sources.source import BadFile, RawBatch
from shoal.kernels.columns.block import Block, arrow_schema
from shoal.kernels.kernel import NEVER_US
from shoal.runtimes.shedder import Positions, Shedder


@dataclass
class AdmittedStream:
    """Checks, sheds and counts the rows of one stream; `now_us` is the processing time of the epoch."""

    program: Program
    stream: str
    now_us: int
    rows: int = 0
    newest_us: int = NEVER_US
    dead: list[pa.RecordBatch] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    shedder: Shedder | None = None

    def block(self, raw: RawBatch | BadFile) -> Block | None:
        """The admitted rows of a batch that are not shed; None if there are none."""
        if isinstance(raw, BadFile):
            self.refused["file"] += 1
            self.dead.append(file_letter(self.stream, raw))
            return None
        source = self.program.inputs[self.stream]
        ahead = source.max_ahead_us
        not_after_us = None if ahead is None else self.now_us + ahead
        checked = self.program.wanted(self.stream).checked
        admitted = admit(raw, self._expected, source.time, not_after_us, checked)
        self.rows += raw.batch.num_rows
        for refusal in admitted.refusals:
            self.refused[refusal.reason] += int(refusal.rows.size)
        if admitted.refusals:
            self.dead.append(dead_letters(self.stream, raw, admitted.refusals))
        if not admitted.batch.num_rows:
            return None
        block = Block.from_arrow(admitted.batch)
        self.newest_us = max(self.newest_us, int(block.columns[source.time].max()))
        if self.shedder is None:
            return block
        # the newest row counts before: watermarks do not depend on what is shed
        kept = self.shedder.kept(block, Positions.of(raw, admitted_rows(raw, admitted.refusals)))
        return kept if kept.length else None

    @cached_property
    def _expected(self) -> pa.Schema:
        """The columns that are read."""
        full = arrow_schema(self.program.inputs[self.stream].schema)
        return pa.schema([full.field(name) for name in self.program.wanted(self.stream).read])
