"""The clock of runtimes in real time: wall-clock time, and the processor time of threads."""

import time


class WallClock:
    """The two times that the runtime protocol asks for."""

    def now_s(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def cpu_s(self) -> float:
        """Processor time of the calling thread."""
        return time.thread_time()
