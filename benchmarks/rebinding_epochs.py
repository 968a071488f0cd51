"""Epochs of trials on Spark: how long they take, and whether those in which instances move take longer."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from spread import Spread
from spread import text as spread_text

WARMING = 2
"""Epochs in which Spark still compiles."""
NEXT = 2
"""An epoch is compared with this many after it: the same hot cells, the same binding, nothing that moves."""
LATE = 1.2
"""An epoch that takes more than this many times as long counts as delayed."""


def rows(found: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]] | None:
    """A header, and a row per trial; nothing where no trial was on Spark."""
    header = [
        "", "epochs", "ms", "with moves", "times the next two", f"over {LATE:g}", "others: times the next two",
        f"over {LATE:g}"
    ]  # fmt: skip
    table = []
    for each in found:
        if not each["trial"]["on"].startswith("spark"):
            continue
        runs = [outcome["epochs"][WARMING:] for outcome in each["outcomes"]]
        runs = [[epoch for epoch in run if epoch["rows"]] for run in runs]
        moving = [ratio for run in runs for ratio in compared(run, moved=True)]
        others = [ratio for run in runs for ratio in compared(run, moved=False)]
        spent_s = [epoch["s"] for run in runs for epoch in run]
        table.append(
            [
                each["trial"]["label"],
                f"{len(spent_s)}",
                spread_text(Spread.of(1000 * each_s for each_s in spent_s).data()),
                f"{sum(bool(epoch['moves']) for run in runs for epoch in run)}",
                *_compared(moving),
                *_compared(others),
            ]
        )
    return (header, table) if table else None


def compared(run: Sequence[Mapping[str, float]], *, moved: bool) -> list[float]:
    """How much longer epochs took than the median of those right behind, where nothing moves in these."""
    ratios = []
    for index, epoch in enumerate(run):
        behind = run[index + 1 : index + 1 + NEXT]
        if bool(epoch["moves"]) == moved and len(behind) == NEXT and not any(one["moves"] for one in behind):
            ratios.append(epoch["s"] / median(one["s"] for one in behind))
    return ratios


def _compared(ratios: Sequence[float]) -> list[str]:
    if not ratios:
        return ["", ""]
    return [spread_text(Spread.of(ratios).data()), f"{sum(ratio > LATE for ratio in ratios)} of {len(ratios)}"]
