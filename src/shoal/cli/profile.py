"""`shoal profile`: cost, selectivity and state of every operator of a target."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from shoal.cli.progress import Progress
from shoal.cli.target import target
from shoal.errors import ConfigError, reason_of
from shoal.session.profile import profiled
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.workload import Amount

HEADER = ("operator", "events in", "out", "selectivity", "ns/event", "share", "state, kB")


@dataclass(frozen=True)
class ProfileOptions:
    """The options of `shoal profile`."""

    target: str
    output: str | None
    events: int | None
    seed: int
    settings: Mapping[str, str]
    functions: str | None
    allow_pickle: bool
    as_json: bool


def run_profile(options: ProfileOptions) -> None:
    """Run the target and write or print its profile."""
    events = options.events
    if options.target in WORKLOADS:
        events = events or WORKLOADS[options.target].events
    elif events is not None:
        raise ConfigError(f"--events is for generated events; {options.target} has its own")
    chosen = target(
        options.target,
        options.seed,
        Amount(events),
        options.settings,
        None,
        options.functions,
        allow_pickle=options.allow_pickle,
    )
    with Progress(quiet=options.as_json) as progress:
        progress.say("measuring every operator on one worker ...")
        found = {"target": options.target, "seed": options.seed, **profiled(chosen.job)}
    text = json.dumps(found, indent=None if options.as_json else 1)
    if options.output:
        try:
            Path(options.output).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write {options.output}: {reason_of(error)}") from error
    if options.as_json:
        click.echo(text)
    else:
        _print(found)


def _print(found: Mapping[str, Any]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for number, name in enumerate(HEADER):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for each in found["operators"]:
        table.add_row(
            each["name"],
            f"{each['events_in']:,}",
            f"{each['events_out']:,}",
            f"{each['selectivity']:.3g}",
            f"{each['cost_s'] * 1e9:.3g}",
            f"{each['share']:.1%}",
            f"{each['state_bytes'] / 1000:,.0f}",
        )
    Console(highlight=False).print(table)
