"""Fill the tables and figures of docs/benchmarks.md from the kept measurements.

    python benchmarks/report.py           rewrite the page
    python benchmarks/report.py --check   say whether it is up to date

Between `<!-- hop -->` and `<!-- /hop -->` is the output of this command; everything else is prose.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import comparison
import figure
import fixed_cost
import local
import rebinding
import rebinding_figure
import repartition
import scaling
import soak
import spatial_costs
import spatial_matching
import window_growth
from record import kept
from table import markdown

import mechanisms
import policies
from shoal.experiments.machine import sentence

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "benchmarks.md"
NAMES = (
    "hop",
    "ysb",
    "fixed_cost",
    "scaling",
    "window_growth",
    "soak",
    "soak_nexmark",
    "local",
    "policies",
    "rebinding",
    "repartition",
    "mechanisms",
    "spatial_matching",
    "spatial_costs",
)


def section(name: str, measured: dict[str, Any]) -> str:
    """The tables of one benchmark, and where they were measured."""
    parts = {
        "hop": _compared,
        "ysb": _compared,
        "fixed_cost": _fixed_cost,
        "scaling": lambda found: [markdown(*scaling.rows_of_table(found["results"]))],
        "window_growth": _window_growth,
        "soak": _soak,
        "soak_nexmark": _soak,
        "local": local.sections,
        "policies": lambda found: [markdown(*policies.rows(found["results"]))],
        "rebinding": rebinding.sections,
        "repartition": repartition.sections,
        "mechanisms": mechanisms.sections,
        "spatial_matching": spatial_matching.sections,
        "spatial_costs": spatial_costs.sections,
    }[name](measured)
    return "\n\n".join([f"Measured on {measured['measured_at']}: {sentence(measured['machine'])}.", *parts])


def _compared(measured: dict[str, Any]) -> list[str]:
    cold = [
        [run["engine"], f"{run['rows']:,}", f"{run['elapsed_s']:.1f}", _seconds(run["first_epoch_s"])]
        for run in measured["cold"]
    ]
    return [
        f"Median of {measured['repeat']} runs (smallest-largest).",
        markdown(*comparison.rows_of_table(measured)),
        "The very first run of each engine in a fresh process, which no table above contains:",
        markdown(["engine", "rows", "s", "first epoch, s"], cold),
    ]


def _fixed_cost(measured: dict[str, Any]) -> list[str]:
    results = measured["results"]
    return [markdown(*fixed_cost.summary_rows(results)), markdown(*fixed_cost.breakdown_rows(results))]


def _window_growth(measured: dict[str, Any]) -> list[str]:
    results = measured["results"]
    return [
        f"Median of {measured['repeat']} runs (smallest-largest).",
        markdown(*window_growth.rows_of_growth(results)),
        markdown(*window_growth.rows_of_table(results)),
    ]


def _soak(measured: dict[str, Any]) -> list[str]:
    totals = measured["totals"]
    traffic = measured.get("workload", "traffic") == "traffic"
    right = "every full window's count is right" if traffic else "all results equal the oracle's"
    text = (
        f"{measured['minutes']:g} minutes at {measured['rate']:,} events/s: {totals['events']:,} events in "
        f"{totals['epochs']:,} epochs, latency median {totals['latency_ms']['p50']:.0f} ms, "
        f"99th percentile {totals['latency_ms']['p99']:.0f} ms; {right}."
    )
    return [text, markdown(*soak.rows_of_table(measured["verdicts"]))]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def filled(page: str) -> str:
    """The page with every section filled again."""
    for name in NAMES:
        measured = kept(name)
        text = section(name, measured) if measured else "Not measured yet."
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not marked.search(page):
            raise SystemExit(f"docs/benchmarks.md has no section <!-- {name} --> ... <!-- /{name} -->")
        page = marked.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


def draw() -> None:
    """The figures."""
    if measured := kept("scaling"):
        figure.scaling(measured["results"], measured["machine"], DOCS / "figures" / "scaling.png")
    if measured := kept("window_growth"):
        figure.window_growth(measured["results"], measured["machine"], DOCS / "figures" / "window_growth.png")
    if measured := kept("local"):
        local.draw(measured["experiments"], DOCS / "figures")
    if (measured := kept("rebinding")) and "local" in measured["parts"]:
        rebinding_figure.draw(measured["parts"]["local"], DOCS / "figures" / "rebinding.png")
    for name in ("soak", "soak_nexmark"):
        if measured := kept(name):
            figure.soak(measured, soak.SERIES, measured["machine"], DOCS / "figures" / f"{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the page is not up to date")
    options = parser.parse_args()
    page = PAGE.read_text()
    wanted = filled(page)
    if options.check:
        sys.exit("docs/benchmarks.md is not what the measurements say" if wanted != page else None)
    PAGE.write_text(wanted)
    draw()


if __name__ == "__main__":
    main()
