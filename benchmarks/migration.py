"""Migrations of a join, an aggregate and both over a slow link, with each mechanism (paper VI of study 002).

    python benchmarks/migration.py [--quick]

Prints when the new host was active, how long all of it took, how long neither host worked, the bytes, and the sums of
the latencies of results over those without a migration. All times are simulated, so they are the same on any machine.
`--quick` leaves the long slides out.
"""

import argparse

from migration_trial import MECHANISMS, NOTHING, Trial, outcome

SLIDES_MS = (200, 1400, 2800)


def main() -> None:
    """Print a table for each trial."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    _print("join of 10,000 stored rows", Trial("join", seconds=11))
    for slide_ms in SLIDES_MS[:1] if options.quick else SLIDES_MS:
        trial = Trial("aggregate", slide_ms=slide_ms, seconds=10, updates=0.002)
        _print(f"aggregate over 100 windows, slide {slide_ms} ms", trial)
    if not options.quick:
        _print("join, then aggregate, slide 1000 ms", Trial("join-aggregate", touched=0.02, seconds=20))


def _print(title: str, trial: Trial) -> None:
    still = outcome(trial, NOTHING)
    print(f"\n{title}")
    print(f"{'mechanism':14} {'active s':>9} {'all s':>7} {'frozen s':>9} {'MB':>6}  delay of results, s")
    for mechanism in MECHANISMS:
        found = outcome(trial, mechanism)
        if found.digest != still.digest:
            raise SystemExit(f"{mechanism} changed results of {trial}")
        first = found.moves[0]  # of the operator upstream
        times = f"{first.active_s:9.2f} {max(move.seconds or 0 for move in found.moves):7.2f} {first.frozen_s:9.2f}"
        sent = sum(move.state_bytes for move in found.moves) / 1e6
        delays = ", ".join(f"{name} {found.delay_s(name) - still.delay_s(name):,.1f}" for name in still.latency)
        print(f"{mechanism:14} {times} {sent:6.2f}  {delays}")


if __name__ == "__main__":
    main()
