"""Migrations of a join, an aggregate and both over a slow link (paper VI of study 002): what waits, and for how long.

All times are simulated, so they are the same on any machine. Delays are sums of the latencies of results over those
without a migration; results must be those without a migration.
"""

from dataclasses import replace

from measures.migration.move_run import NOTHING, kept, outcome
from measures.migration.moving_query import BOTH, JOIN, MovingQuery, disconnected, tenth, windows
from measures.migration.moving_query import slides as short_slides
from measures.outcome import checked
from shoal.experiments.experiment import TrialOutcome


def join(mechanism: str, touched: float = 1.0, small: bool = False) -> TrialOutcome:
    """A join of 10,000 stored rows; `touched` is the share of keys that rows look for."""
    query = replace(JOIN, touched=touched)
    return _moved(tenth(query) if small else query, mechanism)


def aggregate(mechanism: str, slide_ms: int, small: bool = False) -> TrialOutcome:
    """An aggregate with 100 open windows."""
    return _moved(tenth(windows(slide_ms)) if small else windows(slide_ms), mechanism)


def both(mechanism: str, closed_by: str) -> TrialOutcome:
    """A join, then an aggregate, a tenth of the rows; windows are closed by the clock or by the watermark."""
    return _moved(tenth(replace(BOTH, recorded=closed_by == "clock")), mechanism)


def slides(mechanism: str, slide_ms: int) -> TrialOutcome:
    """A join, then an aggregate whose windows close by the clock, a tenth of the rows."""
    return _moved(tenth(short_slides(slide_ms)), mechanism)


def disconnection(mechanism: str, touched: float, small: bool = False) -> TrialOutcome:
    """A join whose old host is disconnected after 30 s; mechanism `none` moves nothing."""
    query = tenth(disconnected(touched)) if small else disconnected(touched)
    return TrialOutcome({"results_kept_percent": 100 * kept(query, NOTHING if mechanism == "none" else mechanism)})


def _moved(query: MovingQuery, mechanism: str) -> TrialOutcome:
    still, found = outcome(query, NOTHING), outcome(query, mechanism)
    first = found.moves[0]  # of the operator upstream
    metrics = {
        "active_s": first.active_s or 0.0,
        "all_moved_s": max(move.seconds or 0.0 for move in found.moves),
        "frozen_s": first.frozen_s or 0.0,
        "sent_mb": sum(move.state_bytes for move in found.moves) / 1e6,
        **{f"delay_s.{table}": found.delay_s(table) - still.delay_s(table) for table in still.latency},
    }
    wrong = [] if found.digest == still.digest else [f"{mechanism} changed the results"]
    return checked(metrics, wrong, {"results": found.digest})
