"""`shoal bench`: compares engines, or variants of Shoal, after checking that their results agree."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from shoal.cli.progress import Progress
from shoal.errors import ConfigError, reason_of
from shoal.experiments import report
from shoal.experiments import variants as declared
from shoal.experiments.figure import draw
from shoal.experiments.variants import MeasuredPoint, Variants


@dataclass(frozen=True)
class BenchOptions:
    """The options of `shoal bench`."""

    name: str
    engines: str
    ablate: str | None
    queries: str | None
    rate: str | None
    seconds: float
    sensitivity: str | None
    load: float | None
    repeat: int
    events: int | None
    workers: int
    seed: int
    settings: Mapping[str, str]
    conf: Mapping[str, str]
    output: str | None
    figure: str | None
    as_json: bool


def run_bench(options: BenchOptions) -> None:
    """Declare the experiment, run it, and print its results."""
    declared.check_name(options.name)
    experiment = _declared(options)
    with Progress(quiet=options.as_json) as progress:
        measured = declared.run(experiment, options.repeat, progress.say)
        if options.load is not None:
            measured += _at_load(options, measured, progress)
    found = report.data(experiment, measured)
    if options.output:
        _write(Path(options.output), json.dumps(found, indent=1) + "\n")
    if options.figure:
        draw(found, Path(options.figure))
    if options.as_json:
        click.echo(json.dumps(found))
    else:
        _print(experiment, measured)


def _declared(options: BenchOptions) -> Variants:
    given = {
        "--ablate": options.ablate,
        "--queries": options.queries,
        "--rate": options.rate,
        "--sensitivity": options.sensitivity,
    }
    chosen = [name for name, value in given.items() if value]
    if len(chosen) > 1:
        raise ConfigError(f"one experiment at a time; got {' and '.join(chosen)}")
    base = declared.trial_settings(options.settings, options.conf, options.name, options.workers, options.seed)
    if options.events is not None:
        base = replace(base, events=options.events)
    if options.ablate:
        return declared.ablation(options.name, options.ablate.split(","), base)
    if options.queries:
        return declared.scaling(options.name, _numbers(options.queries, "--queries"), base)
    if options.rate:
        return declared.dynamic(options.name, options.rate, options.seconds, base)
    if options.sensitivity:
        setting, equals, values = options.sensitivity.partition("=")
        if not equals or not values:
            raise ConfigError(f"--sensitivity takes NAME=V1,V2,...; got {options.sensitivity!r}")
        _numbers(values, "--sensitivity")
        return declared.sensitivity(options.name, setting, values.split(","), base)
    return declared.engines(options.name, options.engines.split(","), base)


def _numbers(text: str, option: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ConfigError(f"{option} takes positive integers, separated by commas; got {text!r}")
    return [int(part) for part in parts]


def _at_load(options: BenchOptions, measured: list[MeasuredPoint], progress: Progress) -> list[MeasuredPoint]:
    """The latency of the local runtime at a share of its measured throughput."""
    local = [each for each in measured if each.point.trial.engine == "shoal-local" and not each.point.trial.rate]
    if options.load is None or not local:
        return []
    point = declared.half_load(local[0], options.seconds, options.load)
    return declared.run(Variants("load", "", (point,)), options.repeat, progress.say)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {reason_of(error)}") from error


def _print(experiment: Variants, measured: list[MeasuredPoint]) -> None:
    table = Table(title=experiment.title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for number, name in enumerate(report.HEADER):
        table.add_column(name, justify="left" if number in (0, len(report.HEADER) - 1) else "right")
    for row in report.rows(measured):
        table.add_row(*row)
    Console(highlight=False, width=None if Console().is_terminal else 160).print(table)
