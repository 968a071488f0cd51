"""Queries that fail while the others go on: which parts of the dataflow still work for some query.

A node that fails drops its rows from then on, but passes stamps on, so that nothing behind it waits. Everything behind
it belongs to the parked queries alone. Their results end at the outlets, where results of other queries may pass.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shoal.compiler.lane import Lane, Origin, Outlet
from shoal.compiler.program import Program
from shoal.compiler.query_failure import (
    lane_failure,
    outlet_failure,
    query_error,
    raise_instead,
    step_queries,
    steps_failure,
)
from shoal.compiler.steps import Step
from shoal.errors import QueryError, RunError
from shoal.kernels.columns.block import Block

OnFailure = Callable[[Block, Exception], None]
"""Called with the rows that a node failed on; raises, unless the queries behind the node are parked."""


@dataclass
class Parking:
    """What becomes of queries that fail, for all nodes of a run.

    `parks`: whether other queries go on; if not, the first failure ends the run. `failures`: those that parked queries,
    for the thread that reports them. `silence` is called with the names of all parked queries whenever there are more.
    """

    program: Program
    parks: bool = False
    failures: deque[QueryError] = field(default_factory=deque)
    silence: Callable[[frozenset[str]], None] = lambda _parked: None
    _parked: frozenset[str] = frozenset()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of_steps(self, origin: Origin, before: Sequence[str], steps: Sequence[Step]) -> OnFailure:
        """What to do when steps fail; `before` are the texts of the steps in front of them."""

        def failed(block: Block, error: Exception) -> None:
            found = steps_failure(self.program, origin, before, steps, block, error)
            if found is None:  # the steps do not fail again
                texts = (*before, *(step.text for step in steps))
                found = query_error(step_queries(self.program, origin, texts), error)
            self.failed(found, error)

        return failed

    def of_outlet(self, outlet: Outlet) -> OnFailure:
        """What to do when an outlet fails."""
        return lambda block, error: self.failed(outlet_failure(self.program, outlet, block, error), error)

    def failed(self, found: Exception, error: Exception) -> None:
        """Park the queries of a failure, or raise it; called by the thread in which it happened."""
        if not self.parks or not isinstance(found, QueryError):
            raise_instead(found, error)
        with self._lock:
            parked = self._parked | set(found.queries)
            if parked == self._parked:
                return
            if parked == set(self.program.graph.queries):
                raise RunError(f"no query is left to run; {found}") from found
            self._parked = parked
            self.silence(parked)
            self.failures.append(found)


@dataclass
class LaneGuard:
    """What becomes of a lane that fails; shared by all states of the lane, which keep nothing once it is `parked`."""

    lane: Lane
    parking: Parking | None = None
    parked: bool = False

    def failed(self, error: Exception, port: int = 0, block: Block | None = None) -> None:
        """Park the queries of the lane, or raise; with a block if it failed on its rows."""
        if self.parking is None:
            raise error
        kernel = self.lane.kernel

        def lift(rows: Block) -> object:
            return None if kernel is None else kernel.lift(port, rows)

        self.parking.failed(lane_failure(self.parking.program, self.lane, error, block, lift), error)
        self.parked = True
