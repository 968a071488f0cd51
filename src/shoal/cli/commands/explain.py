"""`shoal explain`, `shoal policies`, `shoal mechanisms`: the decisions of a run, and the catalogs behind them."""

import json

import click

from shoal.control.story import story_lines
from shoal.mechanisms.catalog import DEFAULT
from shoal.mechanisms.catalog import SUMMARIES as MECHANISM_SUMMARIES
from shoal.policies.catalog import DYNAMIC, QUEUED, SPATIAL_POLICIES, SUMMARIES
from shoal.runtimes.registry import kinds
from shoal.session.journal import read_journal
from shoal.storage.codec import plain


@click.command()
@click.argument("directory", metavar="RUN_DIR")
@click.option("--all", "every_move", is_flag=True, help="List every move of every decision.")
@click.option("--json", "as_json", is_flag=True, help="Print the journal as one JSON array.")
def explain(directory: str, every_move: bool, as_json: bool) -> None:
    """Print the decisions of a run: what moved and why, the expected and the measured effect, and what was refused.

    RUN_DIR is the --checkpoint or --journal directory of the run.
    """
    entries = read_journal(directory)
    if as_json:
        click.echo(json.dumps([plain(entry) for entry in entries]))
        return
    for line in story_lines(entries, every_move=every_move):
        click.echo(line)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def policies(as_json: bool) -> None:
    """List the policies that bind instances to workers."""
    if as_json:
        click.echo(json.dumps({name: {"kind": _kind(name), "summary": text} for name, text in SUMMARIES.items()}))
        return
    for name, text in SUMMARIES.items():
        click.echo(f"{name:14} {_kind(name):8} {text}")


def _kind(name: str) -> str:
    return (
        "adaptive"
        if name in DYNAMIC
        else "spatial"
        if name in SPATIAL_POLICIES
        else "queue"
        if name in QUEUED
        else "static"
    )


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def mechanisms(as_json: bool) -> None:
    """List the mechanisms that move instances with their state between workers, and the runtimes that support them."""
    able = [kind.capabilities for kind in kinds()]
    runs_on = {name: [each.name for each in able if name in each.mechanisms] for name in MECHANISM_SUMMARIES}
    if as_json:
        described = {
            name: {
                "summary": text,
                "runtimes": runs_on[name],
                "default": name == DEFAULT,
                "refused": {each.name: each.lacks[name] for each in able if name in each.lacks},
            }
            for name, text in MECHANISM_SUMMARIES.items()
        }
        click.echo(json.dumps(described))
        return
    for name, text in MECHANISM_SUMMARIES.items():
        click.echo(f"{name:19} {', '.join(runs_on[name]):34} {text}{' (default)' if name == DEFAULT else ''}")
        for each in able:
            if len(each.mechanisms) > 1 and name in each.lacks:
                click.echo(f"{'':19} not on {each.name}: {each.lacks[name]}")
