"""The stateless work on one slice of a source: what to read of it, and what it gives."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from shoal.compiler.program import Program
from shoal.connectors.sources.source import Slice, Source, Wanted, rows_of
from shoal.runtimes.shedder import shedder_of
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.tasks.coarse_time import coarse_time
from shoal.runtimes.spark.tasks.intake import Gathered, Intake


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
        """What the slice gives; `turns`: see `Intake`."""
        raw = rows_of(self.source, self.piece, self.wanted()) if self.stream in self.program.inputs else iter(())
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
