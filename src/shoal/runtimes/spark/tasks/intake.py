"""The reading side: raw batches in, wire rows out; raw events never leave the process that read them."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from shoal.compiler.program import Program
from shoal.compiler.router import Router
from shoal.connectors.sources.source import BadFile, RawBatch
from shoal.kernels.columns.block import Block
from shoal.kernels.kernel import FOREVER_US
from shoal.model.control.shedding import ShedCount
from shoal.runtimes.admitted import AdmittedStream
from shoal.runtimes.shedder import shedder_of
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.outbox import Outbox, WireRow
from shoal.runtimes.spark.tasks.reports import HEADERS, Header, SliceRead


@dataclass(frozen=True)
class Gathered:
    """What a pass over a slice has found: rows for the workers, and what its header says.

    `read`: the number of rows read. `oldest_us`: the oldest event time, if the pass was made ahead.
    """

    rows: tuple[WireRow, ...]
    read: int
    oldest_us: int
    newest_us: int
    refused: Mapping[str, int]
    cost_s: float
    shed: ShedCount = field(default_factory=ShedCount)


@dataclass
class Intake:
    """One task's pass over one slice of a stream.

    `turns`: what to hold while compiled steps are used, if the pass is made ahead in the background. Such a pass also
    finds the oldest event time, and counts processor time only: it gets what others leave.
    """

    program: Program
    plan: EpochPlan
    stream: str
    turns: AbstractContextManager[object] | None = None

    def run(self, raw: Iterable[RawBatch | BadFile], slice_: SliceRead) -> Iterator[WireRow]:
        """Read everything, then send it to the workers that the plan names."""
        return self.sent(self.gathered(raw, slice_.partition), slice_)

    def gathered(self, raw: Iterable[RawBatch | BadFile], partition: str = "") -> Gathered:
        """What the workers get of the rows of a partition."""
        clock = time.perf_counter if self.turns is None else time.thread_time
        began = clock()
        router = Router(self.program, self.plan.binding, self.plan.watermarks_us, self.plan.now_us)
        input_ = self.program.inputs.get(self.stream)
        shedder = None if input_ is None else shedder_of(self.stream, input_.time, self.plan.shedding)
        admitted = AdmittedStream(self.program, self.stream, self.plan.now_us, shedder=shedder)
        oldest_us = FOREVER_US
        for item in raw:
            with self.turns or nullcontext():
                block = admitted.block(item)
                if block is not None:
                    router.take(self.stream, block, partition)
            if block is not None and self.turns is not None:
                oldest_us = min(oldest_us, self._oldest_us(item, block))
        outbox = Outbox(router, self.plan.workers)
        rows = list(outbox.rows())
        rows += [(0, wire.DEAD, wire.pack(letters)) for letters in admitted.dead]
        for reason, number in outbox.refused.items():
            admitted.refused[reason] += number
        return Gathered(
            tuple(rows),
            admitted.rows,
            oldest_us,
            admitted.newest_us,
            admitted.refused,
            clock() - began,
            ShedCount() if shedder is None else shedder.count,
        )

    def _oldest_us(self, item: RawBatch | BadFile, block: Block) -> int:
        """The oldest event time of a block."""
        known = item.oldest_us if isinstance(item, RawBatch) else None
        return int(block.columns[self.program.inputs[self.stream].time].min()) if known is None else known

    def sent(self, gathered: Gathered, slice_: SliceRead) -> Iterator[WireRow]:
        """What was gathered from a slice, with a header for every worker."""
        yield from gathered.rows
        header = Header(
            stream=self.stream,
            slice=slice_,
            rows=gathered.read,
            newest_us=gathered.newest_us,
            refused=gathered.refused,
            cost_s=gathered.cost_s,
            shed=gathered.shed,
        )
        payload = HEADERS.encode(header)
        for worker in range(self.plan.workers):
            yield worker, wire.HEADER, payload


def flush_header(stream: str) -> bytes:
    """The header of a stream that has ended; it closes every window."""
    return HEADERS.encode(Header(stream=stream, slice=SliceRead("end of stream", 0, ended=True), flush=True))
