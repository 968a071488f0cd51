"""Latency over time of bindings that follow the load, and of those that do not."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from figure import MUTED, STYLE
from matplotlib.figure import Figure

COLOURS = ("#c0392b", "#e67e22", "#7d3c98", "#2874a6", "#148f77", "#b7950b", "#717d7e", "#212f3d", "#1e8449")


def draw(found: Sequence[Mapping[str, Any]], path: Path) -> None:
    """A panel per load; a line per policy as it is by default."""
    loads = list(dict.fromkeys(each["trial"]["label"].rpartition(" at ")[2] for each in found))
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(11, 4.2), layout="constrained")
        axes = drawing.subplots(1, len(loads), sharey=True, squeeze=False)[0]
        for axis, load in zip(axes, loads, strict=True):
            trials = [each for each in found if each["trial"]["label"] == f"{each['trial']['policy']} at {load}"]
            for each, colour in zip(trials, COLOURS, strict=True):
                points = [point for point in each["outcomes"][0]["epochs"] if point["results"]]
                name = each["trial"]["policy"]
                x, y = [point["at_s"] for point in points], [1000 * point["latency_s"] for point in points]
                width = 2.4 if name == "guarded" else 1.2
                axis.plot(x, y, color=colour, lw=width, label=name)
            axis.set_yscale("log")
            axis.set_xlabel("seconds")
            axis.set_title(f"{load} of what two threads can do")
        axes[0].set_ylabel("mean latency of results, ms")
        axes[-1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
        drawing.suptitle("skew on the local runtime; the hot cells move every 10 s", color=MUTED, size=10)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path, dpi=150)
