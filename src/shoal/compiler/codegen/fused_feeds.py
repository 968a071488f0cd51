"""Fused feeds: the steps between a stream and a lane as compiled loops, for runtimes that route whole blocks."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shoal.compiler.codegen.fused import Chain, fused
from shoal.kernels.columns.table import INSTANCE
from shoal.model.query.schema import TIME

if TYPE_CHECKING:
    from shoal.compiler.program import Program

MOST_CHAINS = 8
"""Chains of a stream that are worth the time to compile them, some seconds where none is kept from an earlier run."""

Texts = tuple[str, ...]
"""The texts of all steps of a feed."""


def fused_feeds(program: "Program", stream: str) -> Mapping[Texts, Chain]:
    """The chain of each feed of a stream, by the texts of its steps; it leaves out columns that no lane reads.

    None if feeds share their first steps without being equal: these steps are then better applied once.
    """
    steps_of = {feed.texts: feed.steps for _, feed in program.feeds.get(stream, ()) if feed.steps}
    if len(steps_of) > MOST_CHAINS or len({texts[0] for texts in steps_of}) < len(steps_of):
        return {}
    schema = program.inputs[stream].schema
    types = {name: schema.type_of(name) for name in program.columns(stream)}
    found: dict[Texts, Chain] = {}
    for texts, steps in steps_of.items():
        chain = fused(steps, types, _wanted(program, stream, texts))
        if chain is not None:
            found[texts] = chain
    return found


def _wanted(program: "Program", stream: str, texts: Texts) -> frozenset[str] | None:
    """The columns that some lane reads behind these steps; None if that is all of them."""
    wanted = frozenset({INSTANCE, TIME})
    for lane, feed in program.feeds[stream]:
        if feed.texts == texts:
            if lane.kernel is None:
                return None
            wanted |= lane.kernel.reads(feed.port)
    return wanted
