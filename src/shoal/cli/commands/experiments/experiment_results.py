"""`shoal experiment run|compare|report`: run what a file declares, and show what has come of it."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from shoal.cli.progress import Progress
from shoal.cli.target import pairs
from shoal.errors import ConfigError
from shoal.experiments.coordination.flow_trial import LISTEN, listening_address
from shoal.experiments.coordination.wire.token import TOKEN_FILE, known_token
from shoal.experiments.experiment import Experiment, ExperimentFile
from shoal.experiments.language.experiment_file import load_experiments
from shoal.experiments.requirements import lacking
from shoal.experiments.results.point_summary import ExperimentSummary, plain, summary_of
from shoal.experiments.results.result_store import ResultStore
from shoal.experiments.results.tables import notes_of, table_of
from shoal.experiments.runner import RunChoice, Runner, chosen, context_of
from shoal.storage.directory import Directory
from shoal.storage.writable import check_writable

RESULTS = "results"
FAILED = 1
PLAIN_WIDTH = 200


@click.command()
@click.argument("file")
@click.option("--engine", "engines", metavar="A,B", help="Only the points with these engines.")
@click.option("--only", multiple=True, metavar="EXPERIMENT", help="Only this experiment; may be repeated.")
@click.option("--where", multiple=True, metavar="NAME=V,V", help="Only the points with these values of a parameter.")
@click.option("--repeat", type=click.IntRange(1), help="Trials of every point  [default: as declared]")
@click.option("--small", is_flag=True, help="The small variant, which shows in seconds that everything works.")
@click.option("--again", is_flag=True, help="Also run trials that are finished.")
@click.option("-o", "--output", metavar="DIR", default=RESULTS, show_default=True, help="Where results are kept.")
@click.option("--listen", metavar="HOST:PORT", help="Wait here for the nodes of flows, which run elsewhere.")
@click.option("--token-file", metavar="FILE", help="The file with the token that those nodes must have.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on stdout.")
def run(file: str, output: str, listen: str | None, token_file: str | None, as_json: bool, **given: Any) -> None:
    """Run the experiments of FILE; exit code 1 if a trial fails or a result is wrong.

    A trial that has finished before is not run again, so that an interrupted command goes on where it was.
    """
    choice = _choice(**given)
    declared = load_experiments(file, small=choice.small)
    if listen is not None:
        _await_remote(listen, token_file)
    experiments = chosen(declared, choice)
    refuse_lacking(replace(declared, experiments=experiments))
    check_writable(output, "results directory")
    summaries = run_and_show(declared, experiments, choice, output, as_json=as_json)
    if as_json:
        click.echo(json.dumps(told(declared.path, output, summaries)))
    if not all(summary.right for summary in summaries):
        sys.exit(FAILED)


def run_and_show(
    file: ExperimentFile, experiments: Sequence[Experiment], choice: RunChoice, output: str, *, as_json: bool
) -> list[ExperimentSummary]:
    """Run experiments one after another, and print the table of each unless JSON is asked for."""
    summaries = []
    with Progress(quiet=False) as progress:
        runner = Runner(ResultStore(Directory(output)), progress.say, again=choice.again)
        for experiment in experiments:
            context = context_of(file, experiment)
            records = runner.run(file.path, experiment, small=choice.small, context=context)
            summaries.append(summary_of(experiment, records))
            if not as_json:
                show(summaries[-1])
    return summaries


def _choice(
    engines: str | None, only: Sequence[str], where: Sequence[str], repeat: int | None, small: bool, again: bool
) -> RunChoice:
    values = {name: tuple(given.split(",")) for name, given in pairs(where, "--where").items()}
    return RunChoice(tuple(only), tuple(engines.split(",")) if engines else (), values, repeat, small, again)


def _await_remote(listen: str, token_file: str | None) -> None:
    """Let the processes of trials know where to wait for nodes, and with which token."""
    listening_address(listen)
    known_token(token_file)
    os.environ[LISTEN] = listen
    if token_file is not None:
        os.environ[TOKEN_FILE] = str(Path(token_file).absolute())


def refuse_lacking(file: ExperimentFile) -> None:
    """Nothing starts if something is missing."""
    if lacks := list(lacking(file)):
        listed = "".join(f"\n  {each}" for each in lacks)
        raise ConfigError(f"{file.path} needs what is not there; --engine leaves engines out:{listed}")


def told(file: str, output: str, summaries: Sequence[ExperimentSummary]) -> dict[str, object]:
    """What was run, for programs."""
    return {
        "file": file,
        "results": output,
        "right": all(summary.right for summary in summaries),
        "environment": dict(summaries[0].environment),
        "experiments": [plain(summary) for summary in summaries],
    }


def show(summary: ExperimentSummary) -> None:
    """Print the table of an experiment."""
    found = table_of(summary)
    table = Table(title=summary.title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for at, name in enumerate(found.header):
        table.add_column(name, justify="left" if at < found.names or name == "answers" else "right")
    for row in found.rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False, width=None if Console().is_terminal else PLAIN_WIDTH)
    console.print(table)
    for note in notes_of(summary):
        console.print(f"  {note}", soft_wrap=True)
    console.print()
