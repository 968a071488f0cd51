"""How long results take from the turn that made them to the sink, measured in runs that are not traced otherwise.

The thread that delivers results has to win the interpreter lock against the workers. Results are too rare in short runs
to measure that, and a trace of all turns makes workers hold the lock for longer. So at the end of some turns of the
nodes that write results, the last results are emitted again. The sink of such a run is for nothing else.
"""

import time
from contextlib import ExitStack

import pyarrow as pa

from shoal.compiler.program import Program
from shoal.model.control.binding import Binding
from shoal.runtimes.local.dataflow.delivery import Delivery
from shoal.runtimes.local.dataflow.node import OutletNode
from shoal.runtimes.local.runtime import LocalRuntime, LocalSetup

PROBE_S = 0.008
"""The time between two questions; results wake the thread as well, and it looks every 5 ms by itself."""


class ProbedRuntime(LocalRuntime):
    """A local run that measures deliveries: `waits_s` has how long each took, and the number of other busy workers.

    One question is asked at a time. The sink must be one in memory, which gets results at once.
    """

    def __init__(self, setup: LocalSetup) -> None:
        """Prepare a run; nothing starts yet."""
        super().__init__(setup)
        self.waits_s: list[tuple[int, float]] = []
        self._asked: tuple[int, float] | None = None
        self._next_s = 0.0

    def _wire(self, program: Program, binding: Binding, most: int, left_behind: ExitStack) -> None:
        super()._wire(program, binding, most, left_behind)
        for node in self.nodes:
            if isinstance(node, OutletNode):
                self._ask_after(node)

    def _ask_after(self, node: OutletNode) -> None:
        """Have the turns of a node ask, if the last question was a while ago and was answered."""
        plain, plain_emit = node.turn, node.results.emit
        last: list[tuple[str, pa.RecordBatch]] = []

        def emit(table: str, rows: pa.RecordBatch, taken_s: float) -> None:
            last[:] = [(table, rows)]
            plain_emit(table, rows, taken_s)

        def turn(events: int) -> int:
            taken = plain(events)
            now_s = time.perf_counter()
            if now_s >= self._next_s and self._asked is None:
                others = sum(each is not None for each in self.pool.current_node) - 1
                self._next_s, self._asked = now_s + PROBE_S, (others, now_s)
                for table, rows in last:
                    plain_emit(table, rows, time.time())
                node.results.buffer.arrived.set()
            return taken

        node.results.emit = emit  # type: ignore[method-assign]
        node.turn = turn  # type: ignore[method-assign]

    def _delivery_of(self) -> Delivery:
        delivery = super()._delivery_of()
        plain = delivery.deliver

        def deliver() -> None:
            asked = self._asked
            plain()
            if asked is not None:
                self._asked = None
                self.waits_s.append((asked[0], time.perf_counter() - asked[1]))

        delivery.deliver = deliver  # type: ignore[method-assign]
        return delivery
