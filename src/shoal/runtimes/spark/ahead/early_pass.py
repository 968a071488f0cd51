"""Early passes: a pass over a slice before its epoch is planned, and when the epoch may take it for its own.

What a slice gives depends on the slice, the program and its binding, which are in the digest, and on three things that
come with the plan of its epoch: the watermarks, the processing time, and what is shed. Of these, no row may have felt
anything. So an early pass is used only if no row was refused, none is late by the plan, the clock has not gone back,
and nothing is shed. Then it is, byte for byte, what the task of the slice would send.
"""

import hashlib
from dataclasses import dataclass, replace

from shoal.compiler.watermarks import partition_us
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.intake import Gathered
from shoal.runtimes.spark.tasks.slice_pass import SlicePass
from shoal.storage.codec import Codec


@dataclass(frozen=True)
class EarlyFacts:
    """What is known of an early pass beside its rows; `now_us`: the processing time that it assumed."""

    read: int
    oldest_us: int
    newest_us: int
    cost_s: float
    now_us: int


FACTS = Codec([EarlyFacts], format=1)


def is_foreseeable(slice_pass: SlicePass) -> bool:
    """Whether a pass can be made before its epoch, and harms nobody if it was made in vain.

    User code runs only when it must. A rebinding in progress changes the binding from epoch to epoch. Windows by the
    processing time need that of their epoch.
    """
    program, plan, stream = slice_pass.program, slice_pass.plan, slice_pass.stream
    if slice_pass.code or not program.lanes_of(stream) or plan.goal is not None or plan.coming:
        return False
    return not slice_pass.sheds and not any(lane.processing for lane in program.lanes_of(stream))


def digest(slice_pass: SlicePass) -> str:
    """A digest of all that a pass depends on and that is known before its epoch."""
    plan = slice_pass.plan
    known = (slice_pass.stream, slice_pass.piece, plan.graph, plan.partitioning, plan.workers, plan.binding)
    return hashlib.sha256(repr(known).encode()).hexdigest()[:32]


def early(slice_pass: SlicePass) -> SlicePass:
    """The pass as it is made before its epoch: no row is late yet."""
    return replace(slice_pass, plan=replace(slice_pass.plan, watermarks_us={}))


def packed(gathered: Gathered, now_us: int) -> bytes | None:
    """An early pass as the content of a file; None if a row was refused."""
    if any(gathered.refused.values()):
        return None
    facts = EarlyFacts(gathered.read, gathered.oldest_us, gathered.newest_us, gathered.cost_s, now_us)
    return wire.pack(wire.rows([(0, wire.HEADER, FACTS.encode(facts)), *gathered.rows]))


def unpacked(content: bytes, slice_pass: SlicePass) -> Gathered | None:
    """What an early pass has found, if the pass would find the same now."""
    batch = wire.unpack(content)
    (_, _, encoded), *rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    facts = FACTS.decode(encoded)
    if facts.now_us > slice_pass.plan.now_us or facts.oldest_us < _late_us(slice_pass):
        return None
    return Gathered(tuple(rows), facts.read, facts.oldest_us, facts.newest_us, {}, facts.cost_s)


def _late_us(slice_pass: SlicePass) -> int:
    """The time before which rows of the slice may be late somewhere."""
    program, marks, stream = slice_pass.program, slice_pass.plan.watermarks_us, slice_pass.stream
    of_rows = partition_us(marks, stream, slice_pass.piece.partition)
    return max(lane.late_us(marks, of_rows) for lane in program.lanes_of(stream))
