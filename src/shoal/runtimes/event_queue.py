"""The events of one run, queued between the runtime and the session."""

import queue
import threading
from collections.abc import Iterator

from shoal.model.control.messages import Event, RunEnded


class EventQueue:
    """Any thread may put events in; iterating yields them in order, waits for more, and ends with `RunEnded`.

    `producer` is the thread whose last act is to put `RunEnded`; it has exited when the event is yielded.

    >>> events = EventQueue()
    >>> events.put(RunEnded(at_s=1.0))
    >>> list(events) == list(events) == [RunEnded(at_s=1.0)]
    True
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._queue: queue.Queue[Event] = queue.Queue()
        self.producer: threading.Thread | None = None

    def put(self, event: Event) -> None:
        """Add an event; nothing may follow `RunEnded`."""
        self._queue.put(event)

    def __iter__(self) -> Iterator[Event]:
        """Events as they happen; iterating again after the end yields `RunEnded` again."""
        while True:
            event = self._queue.get()
            if isinstance(event, RunEnded) and self.producer is not None:
                self.producer.join()
            yield event
            if isinstance(event, RunEnded):
                self._queue.put(event)
                return
