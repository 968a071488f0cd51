"""`shoal instances`: list the instances of a run, and split or merge them while it runs."""

import json

import click

from shoal.cli.asking import ask_all, kept_run, timeout_option
from shoal.control.names import instance_names
from shoal.model.control.messages import Repartition
from shoal.model.control.partitioning import Merge, Regroup, Split
from shoal.model.query.graph import InstanceId
from shoal.session.partitions import instances_on, operator_named


@click.group()
def instances() -> None:
    """List the instances of a run, and split or merge them while it runs; RUN_DIR is its checkpoint directory."""


@instances.command("list")
@click.argument("run_dir")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(run_dir: str, as_json: bool) -> None:
    """List the stateful instances of the last epoch, with the worker and the slots of each."""
    epoch, run = kept_run(run_dir)
    graph = run.graph(epoch)
    partitioning, binding = run.bound(epoch)
    names = instance_names(graph, partitioning)
    listed = [
        {"instance": instance, "name": names[instance], "worker": int(binding.worker_of[instance]), "slots": slots}
        for instance, slots in instances_on(graph, partitioning)
    ]
    if as_json:
        click.echo(json.dumps({"epoch": epoch, "version": partitioning.version, "instances": listed}))
        return
    width = max([len("instance"), *(len(str(each["instance"])) for each in listed)])
    click.echo(f"{'instance':{width}}  worker  slots  what")
    for each in listed:
        click.echo(f"{each['instance']:{width}}  {each['worker']:6}  {each['slots']:5}  {each['name']}")


@instances.command()
@click.argument("run_dir")
@click.argument("instance")
@click.option(
    "--parts",
    type=click.IntRange(2),
    default=2,
    show_default=True,
    help="Number of instances for its keys.",
)
@timeout_option
def split(run_dir: str, instance: str, parts: int, timeout: float) -> None:
    """Divide the keys of INSTANCE, and their state, among several instances."""
    ask_all(run_dir, [Repartition((Split(InstanceId(instance), parts),))], timeout)


@instances.command()
@click.argument("run_dir")
@click.argument("names", metavar="INSTANCE INSTANCE...", nargs=-1, required=True)
@timeout_option
def merge(run_dir: str, names: tuple[str, ...], timeout: float) -> None:
    """Give the keys of several instances of one operator, and their state, to the first of them."""
    ask_all(run_dir, [Repartition((Merge(tuple(InstanceId(name) for name in names)),))], timeout)


@instances.command()
@click.argument("run_dir")
@click.argument("operator")
@click.option("--groups", type=click.IntRange(1), required=True, help="Number of instances for its keys.")
@timeout_option
def repartition(run_dir: str, operator: str, groups: int, timeout: float) -> None:
    """Divide the keys of OPERATOR evenly; the name of a query stands for its last stateful operator."""
    epoch, run = kept_run(run_dir)
    ask_all(run_dir, [Repartition((Regroup(operator_named(run.graph(epoch), operator), groups),))], timeout)
