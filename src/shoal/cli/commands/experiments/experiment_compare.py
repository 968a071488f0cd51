"""`shoal experiment compare`: two versions, commits or directories of results side by side."""

import json
import sys

import click
from rich.console import Console
from rich.table import Table

from shoal.cli.commands.experiments.experiment_results import FAILED, PLAIN_WIDTH, RESULTS
from shoal.errors import ConfigError
from shoal.experiments.results.comparison import Comparison, compared, notes, plain_comparison
from shoal.experiments.results.sides import summaries_of
from shoal.experiments.results.tables import cell

HEADER = ("experiment", "point", "metric", "A", "B", "B / A", "B is", "certain")
NAMES = 3


@click.command()
@click.argument("a")
@click.argument("b")
@click.option(
    "-o", "--output", metavar="DIR", default=RESULTS, show_default=True, help="Where results of versions are kept."
)
@click.option("--fail-if-slower", is_flag=True, help="Exit code 1 if anything is slower.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on stdout.")
def compare(a: str, b: str, output: str, fail_if_slower: bool, as_json: bool) -> None:
    """Say in which experiments B is faster or slower than A, or no different, and how certain that is.

    A and B are directories of results, files of kept results, or versions or commits that have results.
    """
    found = compared(summaries_of(a, output), summaries_of(b, output))
    if as_json:
        click.echo(json.dumps({"a": a, "b": b, **plain_comparison(found)}))
    else:
        _show(found)
    if not found.compared:
        raise ConfigError(f"{a} and {b} must have an experiment in common, with right results; they have none")
    if fail_if_slower and any(each.word == "slower" for each in found.compared):
        sys.exit(FAILED)


def _show(comparison: Comparison) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for at, name in enumerate(HEADER):
        table.add_column(name, justify="left" if at < NAMES or name == "B is" else "right")
    for each in comparison.compared:
        ratio, interval = each.difference.ratio, each.difference.interval
        spread = f" ({interval.low:.3g}-{interval.high:.3g})" if interval else ""
        table.add_row(
            each.experiment,
            each.point,
            each.metric,
            cell(each.first),
            cell(each.second),
            "" if ratio is None else f"{ratio:.3g}{spread}",
            each.word,
            f"{each.certainty:.1%}" if each.difference.knowable else "",
        )
    console = Console(highlight=False, markup=False, width=None if Console().is_terminal else PLAIN_WIDTH)
    if comparison.compared:
        console.print(table)
    for note in notes(comparison):
        console.print(f"  {note}", soft_wrap=True)
