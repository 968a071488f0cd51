"""`shoal plan`: what would run where on a machine that is only described, and why."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click
from rich.console import Console
from rich.table import Table

from shoal.cli.progress import Progress
from shoal.cli.target import code_options, pairs, target
from shoal.connectors.sources.rate import rate_of
from shoal.errors import ConfigError
from shoal.policies.catalog import QUEUED, SUMMARIES
from shoal.runtimes.registry import runtime_kind
from shoal.session.job import Job
from shoal.session.planning.placement_plan import HOUR_S, HostPlan, PlacementPlan, QueryPlan, planned
from shoal.session.planning.short_run import RUNTIME, ShortRuns
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.workload import Amount

SHOWN = 10
"""Hosts and queries that are listed unless all are asked for."""
HOSTS = ("host", "cores", "instances", "busy", "busiest core", "in, kB/s", "out, kB/s", "energy, J/h", "battery ends")
QUERIES = ("query", "path", "expected", "simulated", "deadline")
CANDIDATES = ("policy", "score", "busiest worker", "power, W", "slowest path", "instances elsewhere")

WIDTH = 110
"""Columns of a table, also where the width of the terminal is not known."""
INSTEAD = {
    "topology": "use --topology",
    "trace": "use --profile",
    "delay": "use --profile",
    "mode": "it is always statistical",
}
"""Settings of the simulation that a plan gives itself."""


@dataclass(frozen=True)
class PlanOptions:
    """The options of `shoal plan`."""

    target: str
    topology: str
    policy: str
    rate: str | None
    events: int | None
    profile: str | None
    deadline_ms: str
    horizon: float
    seconds: float
    seed: int
    settings: Sequence[str]
    functions: str | None
    allow_pickle: bool
    everything: bool
    as_json: bool


@click.command()
@click.argument("target")
@click.option("--topology", required=True, metavar="MACHINE", help="The machine: cores:8, star:5@10Mbit or FILE.yaml.")
@click.option(
    "--policy",
    type=click.Choice([name for name in SUMMARIES if name not in QUEUED]),
    default="guarded",
    show_default=True,
    help="Binding of instances to workers, see `shoal policies`.",
)
@click.option("--rate", metavar="R[,R@S...]", help="Events per second  [default: each event at its own time]")
@click.option("--profile", metavar="FILE", help="Costs of the target, written by `shoal profile`  [default: built in]")
@click.option("--events", type=click.IntRange(1), help="Number of events, for targets that need one.")
@click.option(
    "--deadline-ms", default="", metavar="MS", help="Latency that queries may have: a number, or QUERY:MS,..."
)
@click.option(
    "--horizon",
    type=click.FloatRange(0, min_open=True),
    default=HOUR_S,
    show_default=True,
    help="Seconds for which batteries should last.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=4.0,
    show_default=True,
    help="Simulated seconds of each of the two runs by which loads are found and the plan is tried.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of generated events.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the workload, or of the simulation."
)
@code_options
@click.option("--all", "everything", is_flag=True, help="List every host, query and instance.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on stdout.")
def plan(**given: object) -> None:
    """Print what of TARGET would run where on a machine, by which policy and why; nothing runs for real."""
    options = PlanOptions(**given)  # type: ignore[arg-type]
    of_workload, conf = _divided(options.target, pairs(options.settings, "--set"))
    conf["topology"] = options.topology
    if options.profile:
        conf |= {"delay": "traced", "trace": options.profile}
    runs = ShortRuns(_job(options, of_workload), conf, options.seconds, options.policy, options.seed)
    with Progress(quiet=options.as_json) as progress:
        progress.say("simulating ...")
        found = planned(runs, options.deadline_ms, options.horizon)
    if options.as_json:
        named = {name: getattr(options, name) for name in ("target", "topology", "rate", "seed")}
        click.echo(json.dumps({**named, **found.data()}))
        return
    console = Console(highlight=False)
    console.width = max(console.width, WIDTH)
    title = f"{options.target} on {options.topology}" + (f" at {options.rate} events/s" if options.rate else "")
    for part in _shown(found, title, None if options.everything else SHOWN):
        if isinstance(part, str):
            click.echo(part)
        else:
            console.print(part)


def _divided(name: str, given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of the workload, and those of the simulation."""
    of_workload = WORKLOADS[name].settings if name in WORKLOADS else {}
    known = runtime_kind(RUNTIME).settings
    own = {key: value for key, value in given.items() if key in known and key not in of_workload}
    for key, hint in INSTEAD.items():
        if key in own:
            raise ConfigError(f"--set {key} is not for a plan; {hint}")
    return {key: value for key, value in given.items() if key not in own}, own


def _job(options: PlanOptions, settings: Mapping[str, str]) -> Job:
    for name, value in (("--rate", options.rate), ("--events", options.events)):
        if value is not None and options.target not in WORKLOADS:
            raise ConfigError(f"{name} is for generated events; {options.target} has its own")
    amount = Amount(options.events, None if options.rate is None else rate_of(options.rate), Amount.rows_per_epoch)
    return target(
        options.target, options.seed, amount, settings, None, options.functions, allow_pickle=options.allow_pickle
    ).job


def _shown(found: PlacementPlan, title: str, most: int | None) -> Iterator[str | Table]:
    """The plan, part by part."""
    yield f"{title}: policy {found.policy}, {found.workers} workers on {len(found.hosts)} hosts"
    yield f"why: {found.why}\n"
    yield _table(HOSTS, [_host(host) for host in found.hosts[:most]])
    yield from _left_out(len(found.hosts), most, "hosts")
    if most is None:
        yield from (f"  {host.name}: {', '.join(host.instances) or 'no instances'}" for host in found.hosts)
    yield ""
    yield _table(QUERIES, [_query(query) for query in found.queries[:most]])
    yield from _left_out(len(found.queries), most, "queries")
    yield f"\ncandidates, by {found.score}; less is better"
    ordered = sorted(found.candidates, key=lambda each: (not each.chosen, each.score, each.policy))
    rows = [
        (
            f"{each.policy} (chosen)" if each.chosen else each.policy,
            f"{each.score:.3g}",
            f"{each.busiest:.1%}",
            f"{each.watts:.3g}",
            _time(each.slowest_s),
            f"{each.differs:,}",
        )
        for each in ordered
    ]
    yield _table(CANDIDATES, rows)
    yield from (f"not possible: {reason}" for reason in found.refused.values())
    yield from (f"warning: {text}" for text in found.warnings[:most])
    yield from _left_out(len(found.warnings), most, "warnings")


def _left_out(number: int, most: int | None, what: str) -> Iterator[str]:
    if most is not None and number > most:
        yield f"and {number - most:,} more {what}; --all lists them"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if not number or name == "path" else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _host(host: HostPlan) -> tuple[str, ...]:
    return (
        host.name,
        f"{host.cores:,}",
        f"{len(host.instances):,}",
        f"{host.busy:.1%}",
        f"{host.busiest_core:.1%}",
        f"{host.bytes_in_per_s / 1000:,.1f}",
        f"{host.bytes_out_per_s / 1000:,.1f}",
        f"{host.joules_per_hour:,.0f}",
        "" if host.battery_end_s is None else f"{host.battery_end_s:,.0f} s",
    )


def _query(query: QueryPlan) -> tuple[str, ...]:
    simulated = "" if query.simulated_s is None else _time(query.simulated_s)
    deadline = "" if query.deadline_s is None else _time(query.deadline_s)
    return query.name, " > ".join(map(_stage, query.path)), _time(query.expected_s), simulated, deadline


def _stage(hosts: Sequence[str]) -> str:
    return hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:,.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"
