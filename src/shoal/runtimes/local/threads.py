"""A thread per operator: what the operating system makes of scheduling, for comparison."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from shoal.policies.scheduling import BLOCK_EVENTS
from shoal.runtimes.local.node import Node, SourceNode

WAIT_S = 0.001
"""How long a thread that finds nothing to do waits before it looks again, unless another tells it sooner."""


@dataclass
class ThreadPerNode:
    """Runs every node on a thread of its own until all sources have ended and nothing waits anywhere."""

    nodes: Sequence[Node]
    decisions: int = 0
    deciding_s: float = 0.0
    error: Exception | None = None
    _busy_s: dict[int, float] = field(default_factory=dict)
    _running: set[int] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def workers(self) -> int:
        """As many threads as nodes."""
        return len(self.nodes)

    def start(self) -> list[threading.Thread]:
        """Start the threads."""
        threads = [
            threading.Thread(target=self._work, args=(place,), name=f"shoal-{node.name}", daemon=True)
            for place, node in enumerate(self.nodes)
        ]
        for thread in threads:
            thread.start()
        return threads

    def busy_s(self) -> float:
        """Time all operators have worked."""
        return sum(list(self._busy_s.values()))

    def _work(self, place: int) -> None:
        node = self.nodes[place]
        while self._wait(place, node):
            began = time.perf_counter()
            try:
                node.turn(BLOCK_EVENTS)
            except Exception as error:  # noqa: BLE001  (whatever it is, the run must hear of it)
                self.error = self.error or error
            with self._changed:
                self._busy_s[place] = self._busy_s.get(place, 0.0) + time.perf_counter() - began
                self._running.discard(place)
                self._changed.notify_all()

    def _wait(self, place: int, node: Node) -> bool:
        """Wait for something to do; false once nothing can come any more."""
        with self._changed:
            while not node.ready:
                if self.error is not None or self._finished():
                    self._changed.notify_all()
                    return False
                self._changed.wait(WAIT_S)
            if self.error is not None:
                return False
            self._running.add(place)
            return True

    def _finished(self) -> bool:
        if self._running or any(isinstance(node, SourceNode) and not node.ended for node in self.nodes):
            return False
        return not any(channel.waiting for node in self.nodes for channel in node.inputs)
