"""The reading side: raw batches in, wire rows out; raw events never leave the process that read them."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shoal.compiler.program import Program
from shoal.compiler.router import Router
from shoal.connectors.sources.source import BadFile, RawBatch
from shoal.model.control.shedding import ShedCount
from shoal.runtimes.admitted import AdmittedStream
from shoal.runtimes.shedder import shedder_of
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.outbox import Outbox
from shoal.runtimes.spark.tasks.reports import HEADERS, Header, SliceRead


@dataclass
class Intake:
    """One task's pass over one slice of a stream."""

    program: Program
    plan: EpochPlan
    stream: str

    def run(self, raw: Iterable[RawBatch | BadFile], slice_: SliceRead) -> Iterator[tuple[int, int, bytes]]:
        """Read everything, then send it to the workers that the plan names."""
        began = time.perf_counter()
        router = Router(self.program, self.plan.binding, self.plan.watermarks_us, self.plan.now_us)
        input_ = self.program.inputs.get(self.stream)
        shedder = None if input_ is None else shedder_of(self.stream, input_.time, self.plan.shedding)
        admitted = AdmittedStream(self.program, self.stream, self.plan.now_us, shedder=shedder)
        for item in raw:
            block = admitted.block(item)
            if block is not None:
                router.take(self.stream, block, slice_.partition)
        outbox = Outbox(router, self.plan.workers)
        yield from outbox.rows()
        for letters in admitted.dead:
            yield 0, wire.DEAD, wire.pack(letters)
        for reason, number in outbox.refused.items():
            admitted.refused[reason] += number
        header = Header(
            stream=self.stream,
            slice=slice_,
            rows=admitted.rows,
            newest_us=admitted.newest_us,
            refused=admitted.refused,
            cost_s=time.perf_counter() - began,
            shed=ShedCount() if shedder is None else shedder.count,
        )
        payload = HEADERS.encode(header)
        for worker in range(self.plan.workers):
            yield worker, wire.HEADER, payload


def flush_header(stream: str) -> bytes:
    """The header of a stream that has ended; it closes every window."""
    return HEADERS.encode(Header(stream=stream, slice=SliceRead("end of stream", 0, ended=True), flush=True))
