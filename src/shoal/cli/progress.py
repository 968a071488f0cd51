"""Progress on stderr: one updated line on a terminal, a plain line every few seconds elsewhere."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

from shoal.model.control.messages import EpochCommitted
from shoal.session.run import Run

PLAIN_INTERVAL_S = 5.0


class Progress:
    """Prints the progress of a run; nothing if quiet."""

    def __init__(self, *, quiet: bool) -> None:
        """Choose between terminal, plain text and silence."""
        self._console = Console(stderr=True, quiet=quiet, highlight=False)
        self._status: Status | None = None
        self._printed_s = 0.0

    def __enter__(self) -> Self:
        """Begin."""
        if self._console.is_terminal and not self._console.quiet:
            self._status = self._console.status("")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the updated line."""
        if self._status is not None:
            self._status.stop()

    def say(self, text: str) -> None:
        """Print one step."""
        if self._status is not None:
            self._status.update(text)
        else:
            self._console.print(text, markup=False, soft_wrap=True)
        sys.stderr.flush()

    def epoch(self, run: Run, event: EpochCommitted) -> None:
        """Print the totals of a run so far."""
        now = time.monotonic()
        if self._status is None and now - self._printed_s < PLAIN_INTERVAL_S:
            return
        self._printed_s = now
        tally = run.tally
        rate = tally.events / tally.elapsed_s if tally.elapsed_s else 0.0
        simulated = run.capabilities.simulates_time
        when = (
            f"{event.at_s:.1f} s simulated" if simulated else f"epoch {event.epoch} in {event.duration_s * 1000:.0f} ms"
        )
        self.say(
            f"{when}: {tally.events:,} events, {rate:,.0f}/s, "
            f"{tally.results:,} results, state {event.state_bytes / 1e6:.1f} MB"
            + (f", {tally.dead_letters:,} dead letters" if tally.dead_letters else "")
        )
