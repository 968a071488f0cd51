"""State shedding in a run: the claims of `travel_light.py`, with state that moves between two simulated hosts.

    python benchmarks/travel_light_run.py [NAME ...]

A query processes its events on one host. After a second its instance is asked to move by `lazy-utility`, over a link on
which all of its state takes 11 s, and a deadline ends the move. The run reports how much of the utility was lost.
Prints that for each selection and share of the time. Takes about four minutes.
"""

import argparse
from collections.abc import Sequence

from travel_light_trial import KEYS, Floats, Name, fragments_of, growing, kept_by_run, skewed

SKEWS: Sequence[tuple[int | None, str, Sequence[float]]] = (
    (90, "a tenth of them", (0.19, 0.22, 0.25)),
    (50, "half of them", (0.33, 0.5)),
    (None, "none of them", (0.2,)),
)
"""Above which utility of 100 partial matches are worth more, and the shares of the time to look at."""


def main() -> None:
    """Print what arrived."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(KEYS)}; default: all")
    asked = parser.parse_args().names
    if unknown := [name for name in asked if name not in KEYS]:
        parser.error(f"name must be one of {', '.join(KEYS)}; got {unknown[0]!r}")
    for name in KEYS:
        if not asked or name in asked:
            _print_utility(name)
    if not asked or "bikes" in asked:
        _print_kept("bikes", "learned utility", None, ("greedy", "random"), (0.2,))


def _print_utility(name: Name) -> None:
    sizes = fragments_of(name).state_bytes
    if name in ("operators", "vehicles"):
        what = "utility by size to the power of 0.8"
        _print_kept(name, what, growing(sizes), ("optimal", "greedy", "random"), (0.2, 0.4, 0.6, 0.8))
        return
    for above, what, shares_of_time in SKEWS:
        title = f"{what} ten times as useful"
        _print_kept(name, title, skewed(sizes.size, above), ("greedy", "random"), shares_of_time)


def _print_kept(
    name: Name, what: str, utility: Floats | None, selections: Sequence[str], shares_of_time: Sequence[float]
) -> None:
    print(f"{name}, {len(fragments_of(name)):,} partial matches, {what}")
    for selection in selections:
        found = ((share, kept_by_run(name, selection, utility, share)) for share in shares_of_time)
        print(f"  {selection}: " + ", ".join(f"{kept:.1%} after {share:.0%}" for share, kept in found), flush=True)


if __name__ == "__main__":
    main()
