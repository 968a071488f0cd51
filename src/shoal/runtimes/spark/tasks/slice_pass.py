"""The stateless work on one slice of a source: what to read of it, and what it gives."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from shoal.compiler.program import Program
from shoal.connectors.sources.source import BadFile, RawBatch, Slice, Source, Wanted, rows_of
from shoal.runtimes.shedder import shedder_of
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.tasks.coarse_time import coarse_time
from shoal.runtimes.spark.tasks.intake import Gathered, Intake
from shoal.runtimes.spark.tasks.outbox import LATE


@dataclass(frozen=True)
class SlicePass:
    """A pass over a slice by the plan of an epoch; `code`: the digest of the user's code in the program, if any."""

    program: Program
    plan: EpochPlan
    stream: str
    source: Source
    piece: Slice
    code: str = ""

    def gathered(self, turns: AbstractContextManager[object] | None = None) -> Gathered:
        """What the slice gives; `turns`: see `Intake`.

        If a row was refused that was read with the time of a newer one, the slice is read again with all times: the
        newest time could be that of the refused row, which must not move the watermark.
        """
        if self.stream not in self.program.inputs:
            return self._of(iter(()), turns)
        wanted = self.wanted()
        found = self._of(rows_of(self.source, self.piece, wanted), turns)
        if wanted.coarse is None or not found.refused.keys() - {LATE}:
            return found
        again = self._of(rows_of(self.source, self.piece, replace(wanted, coarse=None)), turns)
        return replace(again, cost_s=found.cost_s + again.cost_s)

    def _of(self, raw: Iterable[RawBatch | BadFile], turns: AbstractContextManager[object] | None) -> Gathered:
        return Intake(self.program, self.plan, self.stream, turns).gathered(raw, self.piece.partition)

    @property
    def sheds(self) -> bool:
        """Whether rows of the stream may be shed."""
        return shedder_of(self.stream, self.program.inputs[self.stream].time, self.plan.shedding) is not None

    def wanted(self) -> Wanted:
        """What to ask the source for; where rows are shed, or user code may show one, all of their times."""
        wanted = self.program.wanted(self.stream)
        if self.code or self.sheds:
            return wanted
        marks, now_us = self.plan.watermarks_us, self.plan.now_us
        return replace(wanted, coarse=coarse_time(self.program, self.stream, marks, self.piece.partition, now_us))
