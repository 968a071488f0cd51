"""Migrations of a join, an aggregate and both over a slow link, with each mechanism (paper VI of study 002).

    python benchmarks/migration.py [PART ...]

The parts are `join`, `aggregate`, `both`, `slides` and `disconnection`; all of them without an argument, which takes
about three minutes. Prints when the new host was active, how long all of it took, how long neither host worked, the
bytes, and the sums of the latencies of results over those without a migration; after a disconnection, the results that
are kept. All times are simulated, so they are the same on any machine. What was found is kept in
results/migration.json, from which docs/figures/migration.png is drawn.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from migration_figure import FIGURE, draw
from migration_trial import BOTH, JOIN, MECHANISMS, NOTHING, Trial, disconnected, kept, outcome, slides, tenth, windows
from record import RESULTS

PARTS: Mapping[str, tuple[str, Mapping[str, Trial]]] = {
    "join": (
        "a join of 10,000 stored rows, by the share of keys that are touched",
        {str(share): replace(JOIN, touched=share) for share in (0.1, 1.0)},
    ),
    "aggregate": (
        "an aggregate with 100 open windows, by slide in ms",
        {str(slide_ms): windows(slide_ms) for slide_ms in (200, 1400, 2800)},
    ),
    "both": (
        "a join, then an aggregate, a tenth of the rows, by what closes windows",
        {"clock": tenth(replace(BOTH, recorded=True)), "watermark": tenth(BOTH)},
    ),
    "slides": (
        "a join, then an aggregate whose windows close by the clock, a tenth of the rows, by slide in ms",
        {str(slide_ms): tenth(slides(slide_ms)) for slide_ms in (100, 500, 900)},
    ),
    "disconnection": (
        "a join whose old host is disconnected after 30 s, by the share of keys that are touched",
        {str(share): disconnected(share) for share in (0.02, 0.4)},
    ),
}
KEPT = RESULTS / "migration.json"
INTERRUPTED = (NOTHING, "all-at-once", "lazy-latency", "lazy-utility")
"""The mechanisms that are compared when a migration cannot be completed."""
Row = Mapping[str, Any]


def main() -> None:
    """Run parts, print a table for each, keep what was found and draw it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is given")
    wanted = parser.parse_args().parts or list(PARTS)
    unknown = sorted(set(wanted) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; expected some of {', '.join(PARTS)}")
    found: dict[str, list[Row]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for part in wanted:
        title, trials = PARTS[part]
        print(f"\n{title}")
        found[part] = [row for name, trial in trials.items() for row in _rows(name, trial)]
    KEPT.write_text(json.dumps({part: found[part] for part in PARTS if part in found}, indent=1) + "\n")
    if set(found) == set(PARTS):
        draw(found)
        print(f"\ndrew {FIGURE.relative_to(FIGURE.parents[2])}")


def _rows(name: str, trial: Trial) -> Iterator[Row]:
    interrupted = "outages" in trial.topology
    measured = [_kept(name, trial, each) for each in INTERRUPTED] if interrupted else _moves(name, trial)
    for row in measured:
        shown = "  ".join(f"{key} {value:,.3f}" for key, value in row.items() if isinstance(value, float))
        print(f"{name:>20}  {row['mechanism']:14} {shown}", flush=True)
        yield row


def _kept(name: str, trial: Trial, mechanism: str) -> Row:
    return {"at": name, "mechanism": mechanism or "none", "kept": kept(trial, mechanism)}


def _moves(name: str, trial: Trial) -> Sequence[Row]:
    still = outcome(trial, NOTHING)
    rows = []
    for mechanism in MECHANISMS:
        found = outcome(trial, mechanism)
        if found.digest != still.digest:
            raise SystemExit(f"{mechanism} changed results of {trial}")
        first = found.moves[0]  # of the operator upstream
        row = {"at": name, "mechanism": mechanism, "active_s": first.active_s, "frozen_s": first.frozen_s}
        row["all_s"] = max(move.seconds or 0.0 for move in found.moves)
        row["sent_mb"] = sum(move.state_bytes for move in found.moves) / 1e6
        row |= {f"{table}_s": found.delay_s(table) - still.delay_s(table) for table in still.latency}
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
