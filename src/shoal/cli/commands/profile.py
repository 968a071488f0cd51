"""`shoal profile`: cost, selectivity and state of every operator of a target, and of the nodes of its runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from shoal.cli.progress import Progress
from shoal.cli.target import target
from shoal.errors import ConfigError, reason_of
from shoal.experiments.processor_use import is_busy, with_others
from shoal.session.prediction.profile import profiled
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.workload import Amount

OPERATORS = ("operator", "events in", "out", "selectivity", "ns/event", "share", "state, kB")
FITTED = {
    "event_s": "ns/event",
    "result_s": "ns/result",
    "state_byte_s": "ns/state byte",
    "merged_row_s": "ns/merged row",
    "merged_event_s": "ns/merged event",
    "pair_s": "ns/pair",
}
"""Parts of a cost and their columns; those in which all is 0 are left out."""
LEAST_SHARE = 0.01
"""The share of all time that a node must have for its error to matter."""


@dataclass(frozen=True)
class ProfileOptions:
    """The options of `shoal profile`."""

    target: str
    on: str
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
        measured = with_others(lambda: profiled(chosen.job, options.on, progress.say))
        found = {"target": options.target, "seed": options.seed, **measured}
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
    console = Console(highlight=False)
    if "operators" in found:
        console.print(_operators(found["operators"]))
    share = found.get("others_share", 0.0)
    if is_busy([share]):
        console.print(f"other programs had {share:.0%} of the processors meanwhile; measure again on a quiet machine")
    for form, title in (("simulator", "a usual run"), ("divided", "a run that binds instances")):
        if form in found:
            console.print(f"\nnodes of {title}, fitted to {found[form]['turns']:,} turns in one thread")
            console.print(_costs("node", "turns", found[form]["nodes"]))
            console.print(_worst(found[form]["nodes"]), markup=False)
    if "contention" in found:
        console.print(_contention(found["contention"]), markup=False)
    if "epochs" in found:
        console.print(f"parts of {found['epochs']['measured']:,} epochs on Spark")
        console.print(_costs("part of an epoch", "measured", found["epochs"]["parts"]))
        console.print(_epoch_error(found["epochs"]), markup=False)


def _table(header: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    return table


def _operators(operators: Sequence[Mapping[str, Any]]) -> Table:
    table = _table(OPERATORS)
    for each in operators:
        table.add_row(
            each["name"],
            f"{each['events_in']:,}",
            f"{each['events_out']:,}",
            f"{each['selectivity']:.3g}",
            f"{each['cost_s'] * 1e9:.3g}",
            f"{each['share']:.1%}",
            f"{each['state_bytes'] / 1000:,.0f}",
        )
    return table


def _costs(what: str, number: str, nodes: Sequence[Mapping[str, Any]]) -> Table:
    parts = [part for part in FITTED if any(each["cost"][part] for each in nodes)]
    table = _table((what, number, "us/turn", *(FITTED[part] for part in parts), "spread", "error"))
    for each in nodes:
        cost = each["cost"]
        table.add_row(
            each["name"],
            f"{each['turns']:,}",
            f"{cost['fixed_s'] * 1e6:,.0f}",
            *(f"{cost[part] * 1e9:,.3g}" for part in parts),
            f"{cost['spread']:.2f}",
            "" if each["error"] is None else f"{each['error']:+.1%}",
        )
    return table


def _contention(found: Mapping[str, Any]) -> str:
    """How much longer turns take while all workers are busy."""
    lines = []
    for name, title in (("at_rate", "at a rate"), ("as_fast_as_possible", "as fast as possible")):
        part = found[name]
        wake_s = sum(part["wake_ups"][-1]) / len(part["wake_ups"][-1])
        lines.append(
            f"{title}, with {len(part['turn'])} busy workers: the fixed part of a turn takes {part['turn'][-1]:.1f} "
            f"times as long, its work {part['work'][-1]:.1f} times; an idle worker begins a turn after "
            f"{wake_s * 1e3:.1f} ms"
        )
    errors = found["errors"]
    if errors:
        lines.append(
            f"the time of all turns of {len(errors)} single runs at a rate is modelled with an error of "
            f"{min(errors):+.0%} to {max(errors):+.0%}"
        )
    calibration = found.get("calibration")
    if calibration and calibration["errors"]:
        late = calibration["errors"]
        lines.append(
            f"waits are stretched by {calibration['factor']:.2f}: mean latencies at {len(late)} rates are then "
            f"simulated with an error of {min(late):+.0%} to {max(late):+.0%}"
        )
    return "\n" + "\n".join(lines)


def _worst(nodes: Sequence[Mapping[str, Any]]) -> str:
    """The largest error of a node that matters, and what the fit leaves out."""
    total_s = sum(each["cpu_s"] for each in nodes) or 1.0
    known = [each for each in nodes if each["error"] is not None and each["cpu_s"] >= LEAST_SHARE * total_s]
    if not known:
        return "too few turns to measure the error of the fit; use more events"
    worst = max(known, key=lambda each: abs(each["error"]))
    weighed = sum(each["error"] * each["cpu_s"] for each in known) / sum(each["cpu_s"] for each in known)
    excess_s = sum(each["slow_turns"]["excess_s"] for each in nodes)
    return (
        f"error of the total cost of held-out turns: {weighed:+.1%} in all, "
        f"at worst {worst['error']:+.1%} ({worst['name']}, {worst['cpu_s'] / total_s:.0%} of the time); "
        f"{excess_s / total_s:.0%} of the time was in turns that are no part of the fit, such as memory that grew"
    )


def _epoch_error(epochs: Mapping[str, Any]) -> str:
    error = epochs["error"]
    if error is None:
        return "too few epochs to measure the error of the fit; use more events"
    return f"error of the modelled time of held-out epochs: {error:+.1%}"
