"""`shoal bench`: the short form of an experiment that runs one workload on several engines."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from shoal.cli.commands.experiments.experiment_results import FAILED, RESULTS, refuse_lacking, run_and_show, told
from shoal.cli.target import pairs
from shoal.errors import ConfigError, did_you_mean
from shoal.experiments.engines.engine import ENGINES
from shoal.experiments.experiment import ENGINE, Experiment, ExperimentFile, FigureSpec, Scalar, WorkloadRun
from shoal.experiments.requirements import DEFAULT_ENGINE
from shoal.experiments.runner import RunChoice
from shoal.storage.writable import check_writable
from shoal.workloads.catalog import workload

NAME = "bench"
LOCAL_EVENTS = {"ysb": 150_000_000, "nyt": 50_000_000, "linear-road": 6_000_000, "mixed": 6_000_000}
"""Events that keep the local runtime busy for several seconds."""
EVENTS = {"ysb": 5_000_000, "nyt": 3_000_000, "mixed": 900_000, "skew": 400_000}
"""Events if there are other engines, which are slower; all of them get the same."""
OTHER_EVENTS = 1_000_000
METRICS = (
    *("events_per_s", "cpu_ns_per_event", "latency_ms.mean", "latency_ms.p99", "marker_ms.mean"),
    *("decision_us", "start_up_s", "peak_rss_mb"),
)


@click.command()
@click.argument("name", metavar="WORKLOAD")
@click.option("--engines", default=DEFAULT_ENGINE, show_default=True, help=f"Engines to compare: {', '.join(ENGINES)}.")
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True, help="Trials of every engine.")
@click.option("--events", type=click.IntRange(1), help="Events per trial, the same for all engines.")
@click.option("--workers", type=click.IntRange(1, 4096), default=2, show_default=True, help="Worker threads or tasks.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of generated events.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the workload.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Setting of the runtime.")
@click.option("--again", is_flag=True, help="Also run trials that are finished.")
@click.option("-o", "--output", metavar="DIR", default=RESULTS, show_default=True, help="Where results are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on stdout.")
def bench(again: bool, output: str, as_json: bool, **given: Any) -> None:
    """Measure WORKLOAD on several engines; results are compared with the oracle first.

    It is run, recorded and shown as `shoal experiment run` does with a file that declares it.
    """
    experiment = declared(**given)
    file = ExperimentFile(NAME, NAME, "expose", (experiment,))
    refuse_lacking(file)
    check_writable(output, "results directory")
    summaries = run_and_show(file, [experiment], RunChoice(again=again), output, as_json=as_json)
    if as_json:
        click.echo(json.dumps(told(NAME, output, summaries)))
    if not all(summary.right for summary in summaries):
        sys.exit(FAILED)


def declared(
    name: str,
    engines: str,
    repeat: int,
    events: int | None,
    workers: int,
    seed: int,
    settings: Sequence[str],
    conf: Sequence[str],
) -> Experiment:
    """The experiment that the options stand for."""
    workload(name)
    chosen = tuple(dict.fromkeys(engines.split(",")))
    for engine in chosen:
        if engine not in ENGINES:
            raise ConfigError(
                f"engine must be one of {', '.join(ENGINES)}; got {engine!r}{did_you_mean(engine, ENGINES)}"
            )
    usual = LOCAL_EVENTS if chosen == (DEFAULT_ENGINE,) else EVENTS
    same: dict[str, Scalar] = {
        "events": events or usual.get(name, OTHER_EVENTS),
        "workers": workers,
        "seed": seed,
        **_prefixed("set", pairs(settings, "--set")),
        **_prefixed("conf", pairs(conf, "--conf")),
    }
    return Experiment(
        name,
        WorkloadRun(name),
        tuple({ENGINE: engine, **same} for engine in chosen),
        title=f"{name}, {same['events']:,} events, {workers} workers",
        repeat=repeat,
        answers="oracle",
        metrics=METRICS,
        figures=(FigureSpec("bars", "events_per_s", ENGINE),),
    )


def _prefixed(kind: str, values: Mapping[str, str]) -> dict[str, Scalar]:
    return {f"{kind}.{key}": value for key, value in values.items()}
