"""The reading side: raw batches in, wire rows out; raw events never leave the process that read them."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from shoal.connectors.admission import Refusal, admit, dead_letters, file_letter
from shoal.connectors.source import BadFile, RawBatch
from shoal.kernels.block import Block, arrow_schema
from shoal.kernels.kernel import NEVER_US
from shoal.query.program import Program
from shoal.query.router import Router
from shoal.runtimes.spark import wire
from shoal.runtimes.spark.checkpoint import Plan
from shoal.runtimes.spark.outbox import Outbox
from shoal.runtimes.spark.reports import HEADERS, Header, SliceRead


@dataclass
class Intake:
    """One task's pass over one slice of a stream."""

    program: Program
    plan: Plan
    stream: str
    rows: int = 0
    newest_us: int = NEVER_US
    _dead: list[pa.RecordBatch] = field(default_factory=list)
    _refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @cached_property
    def _router(self) -> Router:
        return Router(self.program, self.plan.binding, self.plan.watermarks_us, self.plan.now_us)

    def run(self, raw: Iterable[RawBatch | BadFile], slice_: SliceRead) -> Iterator[tuple[int, int, bytes]]:
        """Take everything in, then send it to the workers the plan names."""
        began = time.perf_counter()
        for item in raw:
            if isinstance(item, BadFile):
                self._pass_over(item)
            else:
                self._take(item)
        outbox = Outbox(self._router, self.plan.workers)
        yield from outbox.rows()
        for letters in self._dead:
            yield 0, wire.DEAD, wire.pack(letters)
        for reason, number in outbox.refused.items():
            self._refused[reason] += number
        header = Header(
            stream=self.stream,
            slice=slice_,
            rows=self.rows,
            newest_us=self.newest_us,
            refused=self._refused,
            cost_s=time.perf_counter() - began,
        )
        payload = HEADERS.encode(header)
        for worker in range(self.plan.workers):
            yield worker, wire.HEADER, payload

    def _take(self, raw: RawBatch) -> None:
        source = self.program.inputs[self.stream]
        columns = self.program.columns(self.stream)
        full = arrow_schema(source.schema)
        expected = pa.schema([full.field(name) for name in columns])
        ahead = source.max_ahead_us
        admitted = admit(raw, expected, source.time, None if ahead is None else self.plan.now_us + ahead)
        self.rows += raw.batch.num_rows
        if admitted.refusals:
            self._refuse(raw, admitted.refusals)
        if not admitted.batch.num_rows:
            return
        block = Block.from_arrow(admitted.batch)
        self.newest_us = max(self.newest_us, int(block.columns[source.time].max()))
        self._router.take(self.stream, block)

    def _refuse(self, raw: RawBatch, refusals: list[Refusal]) -> None:
        for refusal in refusals:
            self._refused[refusal.reason] += int(refusal.rows.size)
        self._dead.append(dead_letters(self.stream, raw, refusals))

    def _pass_over(self, bad: BadFile) -> None:
        self._refused["file"] += 1
        self._dead.append(file_letter(self.stream, bad))


def flush_header(stream: str) -> bytes:
    """What a task would tell of a stream that has ended: it closes every window."""
    return HEADERS.encode(Header(stream=stream, slice=SliceRead("end of stream", 0, ended=True), flush=True))
