"""State shedding: how much utility has arrived when the link dies, for each selection (paper V of study 002, figure 4).

    python benchmarks/travel_light.py

Partial matches of the workloads `bikes` and `buses` are sent over a simulated link on which all of them take 11 s. The
time of the disconnection is known in advance. Prints the claims of the paper with our numbers, and how long
selections take; draws docs/figures/travel_light.png.
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
from figure import MUTED, STYLE
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from travel_light_trial import WHOLE_S, Name, arrived, fragments_of, growing, kept, results_kept, skewed

from shoal.mechanisms.shedding.selection import (
    FptasSelection,
    GreedySelection,
    OptimalSelection,
    RandomSelection,
    Selection,
)

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "travel_light.png"
TIMES_S = np.linspace(0.1, WHOLE_S, 110)
SOME_S = TIMES_S[4::5]
"""Times for the optimal choice among thousands, which takes longer."""
DISTRIBUTIONS: Mapping[str, tuple[int | None, str]] = {
    "a tenth of them ten times as useful": (90, "#1b4f72"),
    "half of them ten times as useful": (50, "#2e86c1"),
    "without skew": (None, "#85c1e9"),
}
POWERS = (0.5, 0.8, 1.0, 1.2, 1.5)
"""The study says that utility grows with size, not how; the figure has the power 0.8, with the largest difference."""
LINES: Mapping[str, tuple[str, str, float]] = {
    "optimal": ("#1b4f72", "-", 1.6),
    "fptas": ("#27ae60", "--", 1.2),
    "greedy": ("#c0392b", "-", 1.2),
    "random": ("#99a3a4", ":", 1.4),
}


def main() -> None:
    """Print the claims and draw the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--figure", type=Path, default=FIGURE)
    options = parser.parse_args()
    _print_claims()
    _print_times()
    _draw(options.figure)
    print(options.figure)


def _print_claims() -> None:
    for name in ("bikes", "even_bikes"):
        sizes = fragments_of(name).state_bytes
        print(f"{name}: {sizes.size:,} partial matches, {sizes.min():,} to {sizes.max():,} bytes")
        for what, (above, _) in DISTRIBUTIONS.items():
            share = kept(GreedySelection(), skewed(sizes.size, above), sizes, TIMES_S.tolist())
            print(f"  {what}: 80 % after {_first(share, 0.8):.1f} s, 95 % after {_first(share, 0.95):.1f} s")
    for name in ("operators", "vehicles"):
        sizes = fragments_of(name).state_bytes
        for power in POWERS:
            utility = growing(sizes, power)
            better = kept(OptimalSelection(), utility, sizes, SOME_S.tolist()) - kept(
                GreedySelection(), utility, sizes, SOME_S.tolist()
            )
            print(
                f"{name}: {sizes.size} partial matches, utility by size to the power of {power}: "
                f"optimal better by {better.mean():.2%} of all utility on average, {better.max():.2%} at most"
            )
    found = fragments_of("bikes")
    for selection in (GreedySelection(), RandomSelection()):
        mask = arrived(selection, found.utility, found.state_bytes, WHOLE_S / 5)
        expected, share = found.utility[mask].sum() / found.utility.sum(), results_kept("bikes", mask)
        print(
            f"bikes, a fifth of the time, learned utility, {selection.name}: "
            f"{expected:.1%} of the matches expected, {share:.1%} found"
        )


def _first(share: NDArray[np.float64], least: float) -> float:
    return float(TIMES_S[int(np.argmax(share >= least))])


def _print_times() -> None:
    draw = np.random.default_rng(0)
    for number, selection in (
        (8_000, OptimalSelection()),
        (8_000, FptasSelection()),
        (1_000_000, GreedySelection()),
        (1_000_000, OptimalSelection()),
    ):
        utility, sizes = draw.random(number), draw.integers(50, 5000, number)
        selection.choose(utility[:9], sizes[:9], 9999)  # compile
        start = time.perf_counter()
        selection.choose(utility, sizes, int(sizes.sum()) // 3)
        print(f"{selection.name} choice among {number:,} fragments: {time.perf_counter() - start:.3f} s")


def _draw(path: Path) -> None:
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(11, 7.5), layout="constrained")
        axes = drawing.subplots(2, 2)
        _by_distribution(axes[0, 0])
        _dropped(axes[0, 1])
        _by_selection(axes[1, 0], "operators", TIMES_S)
        _by_selection(axes[1, 1], "vehicles", SOME_S)
        for axis in axes[1]:
            axis.set_xlabel("disconnection after, s")
        drawing.suptitle(
            f"state that has arrived when the link dies; all of it takes {WHOLE_S:.0f} s", color=MUTED, size=10
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path, dpi=150)


def _by_distribution(axis: Axes) -> None:
    """Figure 4a: utility against time for three distributions of utility."""
    sizes = fragments_of("bikes").state_bytes
    for what, (above, colour) in DISTRIBUTIONS.items():
        share = kept(OptimalSelection(), skewed(sizes.size, above), sizes, SOME_S.tolist())
        axis.plot(SOME_S, share * 100, color=colour, label=f"optimal, {what}")
    share = kept(RandomSelection(), skewed(sizes.size, None), sizes, SOME_S.tolist())
    axis.plot(SOME_S, share * 100, ":", color=LINES["random"][0], label="random")
    axis.axhline(80, color=MUTED, lw=0.7, ls="--")
    _finish(axis, f"a: {sizes.size:,} bikes, used unevenly")


def _dropped(axis: Axes) -> None:
    """Figure 4b: partial matches that are dropped at the disconnection."""
    sizes = fragments_of("bikes").state_bytes
    utility = skewed(sizes.size, None)
    selections: tuple[Selection, ...] = (OptimalSelection(), RandomSelection())
    for selection in selections:
        lost = [np.count_nonzero(~arrived(selection, utility, sizes, at)) for at in SOME_S.tolist()]
        colour, dashes, width = LINES[selection.name]
        axis.plot(SOME_S, lost, dashes, color=colour, lw=width, label=selection.name)
    _finish(axis, "b: the same bikes, utility without skew", "partial matches dropped")


def _by_selection(axis: Axes, name: Name, times_s: NDArray[np.float64]) -> None:
    """Figures 4c and 4d: utility against time, by selection."""
    sizes = fragments_of(name).state_bytes
    utility = growing(sizes)
    for selection in (RandomSelection(), GreedySelection(), OptimalSelection(), FptasSelection()):
        colour, dashes, width = LINES[selection.name]
        share = kept(selection, utility, sizes, times_s.tolist())
        axis.plot(times_s, share * 100, dashes, color=colour, lw=width, label=selection.name)
    letter, what = ("c", "bus operators") if name == "operators" else ("d", "vehicles")
    _finish(axis, f"{letter}: {sizes.size} {what}, utility: size to the power of 0.8")


def _finish(axis: Axes, title: str, what: str = "utility that arrived, %") -> None:
    axis.set_title(title)
    axis.set_ylabel(what)
    axis.set_xlim(0, WHOLE_S)
    axis.set_ylim(0)
    axis.legend(frameon=False, fontsize=8.5)


if __name__ == "__main__":
    main()
