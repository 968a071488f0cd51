"""State shedding: how much utility has arrived when the link dies, for each selection (paper V of study 002).

Partial matches are sent over a link on which all of them take 11 s. The time of the disconnection is known in advance.
"""

import time
from typing import cast

import numpy as np

from measures.migration.partial_matches import (
    WHOLE_S,
    Floats,
    Name,
    arrived,
    fragments_of,
    growing,
    kept,
    results_kept,
    skewed,
)
from measures.migration.shedding_run import kept_by_run
from shoal.errors import ConfigError
from shoal.experiments.experiment import TrialOutcome
from shoal.mechanisms.shedding.selection import (
    FptasSelection,
    GreedySelection,
    OptimalSelection,
    RandomSelection,
    Selection,
)

SELECTIONS: dict[str, type[Selection]] = {
    "optimal": OptimalSelection,
    "fptas": FptasSelection,
    "greedy": GreedySelection,
    "random": RandomSelection,
}
SKEWS = {"tenth": 90, "half": 50, "even": None}
"""Above which utility of 100 partial matches are worth ten times as much."""


def over_time(matches: str, selection: str, worth: str, power: float = 0.8, times: int = 22) -> TrialOutcome:
    """The utility that has arrived by the time of the disconnection; `worth` is tenth, half, even or size."""
    sizes = fragments_of(cast(Name, matches)).state_bytes
    utility, chosen = _utility(matches, worth, power), SELECTIONS[selection]()
    times_s = np.linspace(WHOLE_S / times, WHOLE_S, times)
    share = kept(chosen, utility, sizes, times_s.tolist())
    metrics = {"kept_percent.mean": 100 * float(share.mean())}
    for percent in (80, 95):
        if (share >= percent / 100).any():
            metrics[f"s_until_{percent}_percent"] = float(times_s[int(np.argmax(share >= percent / 100))])
    lost = np.count_nonzero(~arrived(chosen, utility, sizes, WHOLE_S / 5))
    metrics["dropped_after_a_fifth"] = float(lost)
    course = [[at, 100 * each] for at, each in zip(times_s.tolist(), share.tolist(), strict=True)]
    return TrialOutcome(metrics, series={"kept_percent": course})


def learned(selection: str, share_of_time: float = 0.2) -> TrialOutcome:
    """With utilities that were learned from bikes: the matches expected from what arrives, and those found."""
    found = fragments_of("bikes")
    mask = arrived(SELECTIONS[selection](), found.utility, found.state_bytes, WHOLE_S * share_of_time)
    expected = float(found.utility[mask].sum() / found.utility.sum())
    return TrialOutcome({"expected_percent": 100 * expected, "found_percent": 100 * results_kept("bikes", mask)})


def in_a_run(matches: str, selection: str, worth: str, share_of_time: float) -> TrialOutcome:
    """The same in a run, whose instance moves by `lazy-utility` from one simulated host to another."""
    name = cast(Name, matches)
    utility = None if worth == "learned" else _utility(matches, worth)
    return TrialOutcome({"kept_percent": 100 * kept_by_run(name, selection, utility, share_of_time)})


def choosing(selection: str, fragments: int) -> TrialOutcome:
    """How long a selection takes."""
    draw, chosen = np.random.default_rng(0), SELECTIONS[selection]()
    utility, sizes = draw.random(fragments), draw.integers(50, 5000, fragments)
    chosen.choose(utility[:9], sizes[:9], 9999)  # compile
    began_s = time.perf_counter()
    chosen.choose(utility, sizes, int(sizes.sum()) // 3)
    return TrialOutcome({"choosing_ms": 1000 * (time.perf_counter() - began_s)})


def _utility(matches: str, worth: str, power: float = 0.8) -> Floats:
    sizes = fragments_of(cast(Name, matches)).state_bytes
    if worth == "size":
        return growing(sizes, power)
    if worth not in SKEWS:
        raise ConfigError(f"worth must be one of {', '.join((*SKEWS, 'size'))}; got {worth!r}")
    return skewed(sizes.size, SKEWS[worth])
