"""The `shoal` command."""

import json
import os
import sys
from collections.abc import Sequence

import click

from shoal import __version__
from shoal.cli.commands.bench import bench
from shoal.cli.commands.experiment import experiment
from shoal.cli.commands.explain import explain, mechanisms, policies
from shoal.cli.commands.graph import write_graph
from shoal.cli.commands.instances import instances
from shoal.cli.commands.mapping import map_
from shoal.cli.commands.planning import plan
from shoal.cli.commands.profile import ProfileOptions, run_profile
from shoal.cli.commands.queries import queries
from shoal.cli.commands.run import RunOptions, run_target
from shoal.cli.commands.validate import ValidateOptions, run_validation
from shoal.cli.target import code_options, pairs
from shoal.control.settings import ControlSettings
from shoal.errors import ConfigError, RunError, ShoalError, reason_of
from shoal.mechanisms.catalog import DEFAULT
from shoal.model.control.parked import ON_QUERY_ERROR
from shoal.model.control.shedding import SHEDDING_TIMES, Shedding, SheddingTime
from shoal.model.query.aggregate import AGGREGATE_KINDS
from shoal.policies.catalog import SUMMARIES
from shoal.runtimes.registry import RUNTIMES, option_values
from shoal.session.prediction.validation import AGAINST, POLICY
from shoal.workloads.catalog import WORKLOADS

FAILED = 1
USER_MISTAKE = 2
INTERRUPTED = 130
OPERATORS = {
    "source": "read a stream: generator, Parquet, Arrow or CSV files, or a Spark DataFrame",
    "filter": "keep the rows for which a condition holds",
    "select": "keep, rename or compute columns (also: with_columns)",
    "lookup": "add the columns of a static table by key (lookup_join)",
    "assign": "give every row the windows it lies in, without aggregating",
    "retime": "use another timestamp column as event time from here on",
    "union": "merge the rows of several flows with the same columns (the inverse: split)",
    "window": "cut a stream into windows: tumbling, hop, session, rows; by event, processing or external time",
    "aggregate": f"{', '.join(AGGREGATE_KINDS)} per key and window (keys: key_by, partition_by)",
    "join": "pair rows of two flows by key, time and range: inner, left, full (also: cogroup)",
    "rank": "the first k rows per key among the rows of one window",
    "deduplicate": "drop rows whose key was kept a short time before",
    "match": "find patterns of rows per key: sequences, repetition, alternatives, negation, within a time",
    "cover": "give points and ranges the cells of a grid that they lie in",
    "geofence": "say when objects enter fences, stay in them and leave them",
    "versions": "turn inserts, updates and deletes of keyed rows into versions that begin and end",
    "match_ranges": "pair points with the ranges that contain them: rectangles, circles, polygons, which may change",
    "sink": "name the query and the table its results go to",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "SHOAL"})
@click.version_option(__version__, prog_name="shoal")
def cli() -> None:
    """Adaptive stream processing on Spark."""


@cli.command()
@click.argument("target")
@click.option("--on", type=click.Choice(list(RUNTIMES)), default="spark", show_default=True, help="Runtime.")
@click.option(
    "--policy",
    type=click.Choice(list(SUMMARIES)),
    help="Binding of instances to workers, see `shoal policies`  [default: round-robin; on local, no binding]",
)
@click.option(
    "--control",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting of the controller, e.g. trigger=periodic:2.",
)
@click.option(
    "--mechanism",
    metavar="NAME",
    help=f"How state moves to its new worker, see `shoal mechanisms`; auto: as predicted best  [default: {DEFAULT}]",
)
@click.option("--journal", metavar="DIR", help="Keep the journal of decisions here  [default: the checkpoint]")
@click.option(
    "--scheduling",
    type=click.Choice(option_values("scheduling")),
    help="Which operator runs next, on the local and the simulated runtime  [default: state-based on local]",
)
@click.option(
    "--mode",
    type=click.Choice(option_values("mode")),
    help="Scheduling and memory of the local runtime: Threads or State-based, Queues or Memory in blocks.",
)
@click.option(
    "--topology",
    metavar="MACHINE",
    help="The machine of the simulated runtime: cores:8, numa:2x12, star:5@10Mbit, spark:20x4 or FILE.yaml.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1_000_000),
    help="Workers: tasks of the stateful stage, threads or cores  [default: 2, or all cores of the topology]",
)
@click.option("--events", type=click.IntRange(0), help="Stop after this many events.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="Stop after this many seconds.")
@click.option("--drain", is_flag=True, help="After --seconds close every window, even with a checkpoint.")
@click.option(
    "--rate",
    metavar="R[,R@S...]",
    help="Events per second, steps like 1000,5000@10, or event-time  [default: as fast as possible]",
)
@click.option(
    "--epoch-rows",
    type=click.IntRange(1),
    help="Maximum number of events per epoch  [default: 1,000,000, or that of the workload]",
)
@click.option(
    "--source",
    metavar="URI",
    help="parquet:DIR, arrow:DIR or csv:DIR instead of generated events; ?follow waits for new files; sumo:SCENARIO.",
)
@code_options
@click.option("--sink", metavar="URI", help="parquet:DIR or console:  [default: results stay in memory]")
@click.option("--overwrite", is_flag=True, help="Replace the results of another run in the directory of the sink.")
@click.option("--append", is_flag=True, help="Add to the results of another run in the directory of the sink.")
@click.option("--checkpoint", metavar="DIR", help="Keep position and state here, and resume from them.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of generated events.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    envvar="SHOAL_RUN_SET",
    help="Setting of the workload, or of the simulation.",
)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Setting of Spark, or of another runtime.")
@click.option("--metrics", metavar="FILE", help="Append metrics of every operator to a file, once a second (local).")
@click.option(
    "--shuffle-bindings",
    is_flag=True,
    help="Bind every instance again at random after every epoch: no result may change.",
)
@click.option(
    "--shuffle-partitions",
    is_flag=True,
    help="Split and merge instances at random after every epoch: no result may change.",
)
@click.option(
    "--on-query-error",
    type=click.Choice(ON_QUERY_ERROR),
    default=ON_QUERY_ERROR[0],
    show_default=True,
    help="When a query fails: end the run, or park the query and go on with the others; exit code 3 if any was parked.",
)
@click.option(
    "--shed",
    metavar="KIND:SHARE",
    help="Drop up to this share of the input: random:0.2, utility:EXPRESSION:0.2 or windows:0.2  [default: none]",
)
@click.option("--shed-when", type=click.Choice(SHEDDING_TIMES), help="When to drop input  [default: overload]")
@click.option(
    "--shed-above-ms",
    type=click.FloatRange(0, min_open=True),
    help="Latency or backlog from which on a run is overloaded  [default: 5000]",
)
@click.option("--shed-intervals", is_flag=True, help="Let queries compute what intervals of sums and means need.")
@click.option("--fail-on-dead-letters", is_flag=True, help="Exit code 1 if any row or file was refused.")
@click.option("--check", is_flag=True, help="Compare the results with the batch oracle; exit code 1 if they differ.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    envvar="SHOAL_RUN_JSON",
    help="Print one JSON object and nothing else on stdout.",
)
def run(
    settings: Sequence[str],
    conf: Sequence[str],
    control: Sequence[str],
    shed: str | None,
    shed_when: SheddingTime | None,
    shed_above_ms: float | None,
    shed_intervals: bool,
    **options: object,
) -> None:
    """Run TARGET: a workload (see `shoal workloads`), a graph FILE.yaml, a FILE.sql, or FILE.py:NAME of a job."""
    chosen = RunOptions(
        settings=pairs(settings, "--set"),
        conf=pairs(conf, "--conf"),
        control=ControlSettings.of(pairs(control, "--control")),
        shed=_shedding(shed, shed_when, shed_above_ms, int(str(options["seed"])), intervals=shed_intervals),
        **options,  # type: ignore[arg-type]
    )
    sys.exit(run_target(chosen))


def _shedding(
    shed: str | None, when: SheddingTime | None, above_ms: float | None, seed: int, *, intervals: bool
) -> Shedding | None:
    """What the options of shedding say together."""
    if shed is None:
        for name, given in (("when", when), ("above-ms", above_ms), ("intervals", intervals)):
            if given:
                raise ConfigError(f"--shed-{name} is about what --shed says; add --shed, e.g. --shed random:0.2")
        return None
    if when == "always" and above_ms is not None:
        raise ConfigError("--shed-above-ms says when a run is overloaded; omit it with --shed-when always")
    above_s = Shedding.above_s if above_ms is None else above_ms / 1000
    return Shedding.of(shed, when or SHEDDING_TIMES[0], above_s, seed, intervals=intervals)


@cli.command()
@click.argument("target")
@click.option("-o", "--output", metavar="FILE", help="File to write  [default: stdout]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the workload.")
@code_options
def graph(target: str, output: str | None, settings: Sequence[str], functions: str | None, allow_pickle: bool) -> None:
    """Write the graph of TARGET as YAML, which `shoal run FILE.yaml` takes."""
    write_graph(target, output, pairs(settings, "--set"), functions, allow_pickle=allow_pickle)


@cli.command()
@click.argument("target")
@click.option("--on", type=click.Choice(list(RUNTIMES)), default="local", show_default=True, help="Runtime.")
@click.option("-o", "--output", metavar="FILE", help="File to write  [default: a table on stdout]")
@click.option("--events", type=click.IntRange(1), help="Events to measure with.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of generated events.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the workload.")
@code_options
@click.option("--json", "as_json", is_flag=True, help="Print the profile as one JSON object.")
def profile(settings: Sequence[str], **options: object) -> None:
    """Measure what the operators of TARGET cost, on one local worker or on Spark, also for the simulator."""
    run_profile(ProfileOptions(settings=pairs(settings, "--set"), **options))  # type: ignore[arg-type]


@cli.command()
@click.argument("target")
@click.option("--against", type=click.Choice(AGAINST), default="local", show_default=True, help="The real runtime.")
@click.option("--workers", type=click.IntRange(1, 4096), default=2, show_default=True, help="Workers of both runs.")
@click.option("--rate", metavar="R[,R@S...]", help="Events per second of both runs  [default: as fast as possible]")
@click.option("--events", type=click.IntRange(1), help="Events of both runs.")
@click.option("--policy", type=click.Choice(list(SUMMARIES)), default=POLICY, show_default=True, help="Binding.")
@click.option("--profile", metavar="FILE", help="A profile of the target  [default: measure one first]")
@click.option(
    "--warm-up",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    help="Seconds at the start of both runs that do not count.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Real and simulated runs, of which the medians are compared.",
)
@click.option("--epoch-rows", type=click.IntRange(1), help="Maximum number of events per epoch.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of generated events.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the workload, or of the simulation."
)
@click.option("--parts", is_flag=True, help="Trace one more real run, and compare where the time of a result goes.")
@code_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on stdout.")
def validate(settings: Sequence[str], **options: object) -> None:
    """Run TARGET for real and simulated, and compare; exit code 1 if their results differ."""
    sys.exit(run_validation(ValidateOptions(settings=pairs(settings, "--set"), **options)))  # type: ignore[arg-type]


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def workloads(as_json: bool) -> None:
    """List the workloads that ship with Shoal."""
    if as_json:
        click.echo(
            json.dumps({w.name: {"summary": w.summary, "settings": dict(w.settings)} for w in WORKLOADS.values()})
        )
        return
    for workload in WORKLOADS.values():
        click.echo(f"{workload.name:12} {workload.summary}")
        click.echo(f"{'':12} settings: {', '.join(f'{name}={value}' for name, value in workload.settings.items())}")


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def operators(as_json: bool) -> None:
    """List the operators of queries."""
    if as_json:
        click.echo(json.dumps(OPERATORS))
        return
    for name, summary in OPERATORS.items():
        click.echo(f"{name:12} {summary}")


cli.add_command(bench)
cli.add_command(instances)
cli.add_command(queries)
cli.add_command(explain)
cli.add_command(experiment)
cli.add_command(map_)
cli.add_command(plan)
cli.add_command(policies)
cli.add_command(mechanisms)


def main() -> None:
    """Run the command line; mistakes of the user give one sentence and exit code 2, never a traceback."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(USER_MISTAKE)
    except RunError as error:
        click.echo(f"shoal: {error}", err=True)
        sys.exit(FAILED)
    except ShoalError as error:
        click.echo(f"shoal: {error}", err=True)
        sys.exit(USER_MISTAKE)
    except BrokenPipeError:  # the reader of our output, e.g. `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except OSError as error:
        about = f" {error.filename}" if error.filename else ""
        click.echo(f"shoal: the system refuses access{about}: {reason_of(error)}", err=True)
        sys.exit(FAILED)
