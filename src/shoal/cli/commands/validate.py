"""`shoal validate`: a target for real and simulated, side by side."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from shoal.cli.progress import Progress
from shoal.cli.target import target
from shoal.connectors.sources.rate import Rate
from shoal.errors import ConfigError
from shoal.experiments.processor_use import is_busy, watched_others, with_others
from shoal.runtimes.measured.profile_file import read_profile
from shoal.runtimes.measured.result_path import PARTS
from shoal.runtimes.registry import runtime_kind
from shoal.session.job import Job
from shoal.session.prediction.profile import profiled
from shoal.session.prediction.validation import POLICY, PartTimes, TwoRuns, Validation, enough_events
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.workload import Amount

DONE, WRONG = 0, 1
NAMES = {
    "mean_ms": ("mean latency, ms", "{:,.3g}"),
    "p50_ms": ("p50 latency, ms", "{:,.3g}"),
    "p99_ms": ("p99 latency, ms", "{:,.3g}"),
    "events_per_s": ("events/s", "{:,.0f}"),
    "utilisation": ("utilisation", "{:.1%}"),
    "epoch_ms": ("epoch, ms", "{:,.3g}"),
}


@dataclass(frozen=True)
class ValidateOptions:
    """The options of `shoal validate`."""

    target: str
    against: str
    workers: int
    rate: str | None
    events: int | None
    policy: str | None
    profile: str | None
    warm_up: float
    repeat: int
    epoch_rows: int | None
    seed: int
    settings: Mapping[str, str]
    functions: str | None
    allow_pickle: bool
    parts: bool
    as_json: bool


def run_validation(options: ValidateOptions) -> int:
    """Profile, run twice, and print; returns the exit code."""
    of_simulation = _of_simulation(options)
    usual = _usual_events(options)
    both = TwoRuns(
        _job(options, options.seed, options.rate, usual),
        options.against,
        options.workers,
        options.policy or POLICY,
        options.warm_up,
        of_simulation,
        options.seed,
        options.repeat,
    )
    both = replace(both, watched=watched_others, parts=options.parts)
    with (
        Progress(quiet=options.as_json) as progress,
        tempfile.TemporaryDirectory(prefix="shoal-validate-") as directory,
    ):
        file = options.profile or str(Path(directory) / "profile.json")
        if options.profile is None:
            job = _job(options, options.seed + 1, None, usual)
            measured = with_others(lambda: profiled(job, options.against, progress.say))
            Path(file).write_text(json.dumps(measured), encoding="utf-8")
        profile = read_profile(file)
        events, beside = _events(options, profile), profile.get("others_share")
        if events != usual:
            both = replace(both, job=_job(options, options.seed, options.rate, events))
        found = both.validated(file, progress.say)
    if options.as_json:
        asked = {"target": options.target, "seed": options.seed, "rate": options.rate, "events": events}
        asked |= {"profile_others_share": beside}
        click.echo(json.dumps({**asked, **found.data()}))
    else:
        _print(found)
        if beside is not None and is_busy([beside]):
            click.echo(f"other programs had {beside:.0%} of the processors during the profile; measure it again")
        if events is not None and events != usual:
            click.echo(f"{events:,} events instead of the usual {usual:,}, so that runs take long enough")
    return WRONG if found.wrong else DONE


def _usual_events(options: ValidateOptions) -> int | None:
    """The events that are asked for, or those that the workload has by default; None for other targets."""
    workload = WORKLOADS.get(options.target)
    return options.events or (workload.events if workload is not None else None)


def _events(options: ValidateOptions, profile: Mapping[str, Any]) -> int | None:
    """The events of both runs: more than usual if none are asked for, and the usual ones end too soon."""
    usual, rate = _usual_events(options), None if options.rate is None else Rate.of(options.rate)
    if usual is None or options.events is not None:
        return usual
    return enough_events(usual, rate, profile, options.workers, options.warm_up)


def _of_simulation(options: ValidateOptions) -> dict[str, str]:
    """Those of `--set` that are settings of the simulation, and none of the workload."""
    of_workload = WORKLOADS[options.target].settings if options.target in WORKLOADS else {}
    known = runtime_kind("simulated").settings
    return {name: value for name, value in options.settings.items() if name in known and name not in of_workload}


def _job(options: ValidateOptions, seed: int, rate: str | None, events: int | None) -> Job:
    """The target with a seed and a rate; a target with events of its own has only one of each."""
    generated = options.target in WORKLOADS
    limits = {"--events": options.events, "--rate": options.rate, "--epoch-rows": options.epoch_rows}
    for name, value in limits.items():
        if value is not None and not generated:
            raise ConfigError(f"{name} is for generated events; {options.target} has its own")
    workload = WORKLOADS.get(options.target)
    rows = options.epoch_rows or (Amount.rows_per_epoch if workload is None else workload.rows_per_epoch)
    amount = Amount(events, None if rate is None else Rate.of(rate), rows)
    own = _of_simulation(options)
    settings = {name: value for name, value in options.settings.items() if name not in own}
    return target(
        options.target, seed, amount, settings, None, options.functions, allow_pickle=options.allow_pickle
    ).job


def _print(found: Validation) -> None:
    console = Console(highlight=False)
    data = found.data()
    if found.wrong:
        console.print("results: different; the times below are of runs that did not do the same")
        for text in found.wrong:
            console.print(f"different: {text}", markup=False)
    else:
        console.print("results: equal")
    table = Table(box=None, padding=(0, 2, 0, 0))
    several = len(found.reals) > 1
    for number, name in enumerate(("", found.against, *(["runs"] * several), "simulated", "error", "wanted")):
        table.add_column(name, justify="right" if number else "left")
    for name, row in data["compared"].items():
        text, form = NAMES[name]
        runs = [" to ".join(map(form.format, found.spread(name)))] * several
        table.add_row(text, form.format(row["real"]), *runs, form.format(row["simulated"]), *_judged(row))
    console.print(table)
    if found.parts is not None:
        console.print(_table_of(found.parts, found.against))
    seconds, results = data["measured_s"], data["measured_results"]
    console.print(
        f"{found.workers} workers, policy {found.policy}; after the warm-up: {seconds['real']:.1f} s and "
        f"{results['real']:,} results on {found.against}, {seconds['simulated']:.1f} s and {results['simulated']:,} "
        "simulated",
        soft_wrap=True,
    )
    if found.others:
        shares = ", ".join(f"{share:.0%}" for share in found.others)
        again = (
            "; the real runs are not to be trusted, run it again on a quiet machine" if is_busy(found.others) else ""
        )
        console.print(f"other programs had {shares} of the processors during the real runs{again}", soft_wrap=True)


def _table_of(parts: PartTimes, against: str) -> Table:
    """Where the time of results goes, of both runs."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for number, name in enumerate(("mean ms of a result", f"{against}, traced", "simulated", "difference", "")):
        table.add_column(name, justify="right" if 0 < number < 4 else "left")
    for part, row in parts.data().items():
        real, simulated = row["real"], row["simulated"]
        cells = (f"{real:.3g}", f"{simulated:.3g}", f"{simulated - real:+.3g}")
        table.add_row(part.replace("_", " "), *cells, PARTS.get(part, ""))
    return table


def _judged(row: Mapping[str, Any]) -> tuple[str, str]:
    """The error, and whether it is as small as it should be."""
    error = "" if row["error"] is None else f"{row['error']:+.1%}"
    if row["limit"] is None:
        return error, ""
    verdict = "" if row["within"] is None else (", met" if row["within"] else ", missed")
    return error, f"within {row['limit']:.0%}{verdict}"
