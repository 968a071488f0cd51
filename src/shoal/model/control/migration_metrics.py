"""The metrics of a migration: what it has cost, and what of its state has arrived."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from shoal.model.control.histogram import Histogram
from shoal.model.control.messages import MoveReport


@dataclass(frozen=True)
class MigrationMetrics:
    """What all moves of a rebinding have cost; None for what was not measured.

    `seconds`: from the beginning to the end of the last move. `frozen_s`: the longest time in which neither worker
    processed an instance. `late_s`: the longest time that events waited for state. `latency_spike_s`: the largest
    latency of a result during the migration, over the median before. `output_latency_s`: how much longer all results of
    that time took in sum than as many would have taken before, `output_latency_mean_s` each of them on average.
    `late_results`: windows that were emitted later than the watermark passed their end, the last of them by
    `emission_delay_s`, all together by `emission_delay_sum_s`. `utility_kept`: the share of the state's utility that
    arrived, on average over the instances. `deviation`: the share of results that differ from those of a reference.
    """

    seconds: float | None = None
    state_bytes: int = 0
    frozen_s: float | None = None
    late_s: float | None = None
    latency_spike_s: float | None = None
    output_latency_s: float | None = None
    output_latency_mean_s: float | None = None
    late_results: int | None = None
    emission_delay_s: float | None = None
    emission_delay_sum_s: float | None = None
    utility_kept: float | None = None
    deviation: float | None = None


def metrics_of(
    moves: Sequence[MoveReport],
    seconds: float | None = None,
    before: Histogram | None = None,
    during: Histogram | None = None,
    deviation: float | None = None,
) -> MigrationMetrics:
    """The metrics of moves, without those that were aborted.

    `seconds`: the time from the beginning to the end of all, if they do not say so themselves. `before` and `during`:
    latencies of the results before and during the migration.
    """
    made = [move for move in moves if not move.aborted]
    own_s = _largest(move.seconds for move in made)
    spike_s, sum_s = _latency(before, during)
    late = [move.late_results for move in made if move.late_results is not None]
    delays_s = [move.emission_delay_sum_s for move in made if move.emission_delay_sum_s is not None]
    kept = [1 - move.lost.share if move.lost is not None else 1.0 for move in made]
    return MigrationMetrics(
        seconds=seconds if own_s is None else max(own_s, seconds or 0.0),
        state_bytes=sum(move.state_bytes for move in made),
        frozen_s=_largest(move.frozen_s for move in made),
        late_s=_largest(move.late_s for move in made),
        latency_spike_s=spike_s,
        output_latency_s=sum_s,
        output_latency_mean_s=None if sum_s is None or during is None else sum_s / during.total,
        late_results=sum(late) if late else None,
        emission_delay_s=_largest(move.emission_delay_s for move in made),
        emission_delay_sum_s=sum(delays_s) if delays_s else None,
        utility_kept=sum(kept) / len(kept) if kept else None,
        deviation=deviation,
    )


def deviation_of(results: Iterable[Hashable], reference: Iterable[Hashable]) -> float:
    """The share of results that are missing, different or too many, in any order.

    >>> deviation_of(["a", "b"], ["b", "d"]), deviation_of([], []), deviation_of(["a"], [])
    (0.5, 0.0, 1.0)
    """
    got, wanted = Counter(results), Counter(reference)
    most = max(got.total(), wanted.total())
    return 1 - (got & wanted).total() / most if most else 0.0


def _latency(before: Histogram | None, during: Histogram | None) -> tuple[float | None, float | None]:
    """The spike and the additional sum; None without results before or during the migration."""
    if before is None or during is None or not before.total or not during.total:
        return None, None
    spike_s = max(0.0, during.max_s - before.percentile(50))
    return spike_s, during.sum_s - during.total * before.sum_s / before.total


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
