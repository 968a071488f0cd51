"""`shoal experiment`: what a file declares, before anything is run, and the schema of such files."""

import json
from collections.abc import Iterator
from typing import Any

import click

from shoal.cli.commands.experiments.experiment_compare import compare
from shoal.cli.commands.experiments.experiment_node import node
from shoal.cli.commands.experiments.experiment_report import report
from shoal.cli.commands.experiments.experiment_results import run
from shoal.experiments.experiment import Experiment, ExperimentFile, MeasureFunction, Parameters, TaskFlow, WorkloadRun
from shoal.experiments.language.experiment_file import load_experiments
from shoal.experiments.language.file_schema import file_schema
from shoal.experiments.language.task_check import every_task
from shoal.experiments.requirements import engines_of, lacking

MOST_POINTS = 12
"""The points of an experiment that are listed; `--json` has all."""


@click.group()
def experiment() -> None:
    """Plan, run and compare the experiments of a file."""


experiment.add_command(run)
experiment.add_command(node)
experiment.add_command(compare)
experiment.add_command(report)


@experiment.command()
@click.argument("file")
@click.option("--small", is_flag=True, help="The small variant, which shows in seconds that everything works.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def plan(file: str, small: bool, as_json: bool) -> None:
    """Check FILE and print what would be run; nothing is started."""
    loaded = load_experiments(file, small=small)
    lacks = list(lacking(loaded))
    if as_json:
        click.echo(json.dumps(_described(loaded, lacks)))
        return
    for line in _lines(loaded, lacks):
        click.echo(line)


@experiment.command()
def schema() -> None:
    """Print the JSON Schema of experiment files, for editors."""
    click.echo(json.dumps(file_schema(), indent=2))


def _lines(file: ExperimentFile, lacks: list[str]) -> Iterator[str]:
    points = sum(len(each.points) for each in file.experiments)
    trials = sum(len(each.points) * each.repeat for each in file.experiments)
    counted = f"{_count(len(file.experiments), 'experiment')}, {_count(points, 'point')}, {_count(trials, 'trial')}"
    yield f"{file.name}: {counted}"
    yield f"dialect {file.dialect}: {file.dialect_reason}"
    for each in file.experiments:
        yield ""
        yield from _experiment_lines(each, file)
    if lacks:
        yield ""
        yield "missing:"
        yield from (f"  {each}" for each in lacks)


def _experiment_lines(experiment: Experiment, file: ExperimentFile) -> Iterator[str]:
    title = f": {experiment.title}" if experiment.title else ""
    yield f"{experiment.name}{title}"
    yield f"  {_subject(experiment, file)}"
    trials = f"{_count(len(experiment.points), 'point')}, {_count(experiment.repeat, 'trial')} of each"
    yield f"  {trials}; answers: {experiment.answers}"
    same, varied = _split(experiment)
    if same:
        yield f"  set {_shown(same)}"
    for point in varied[:MOST_POINTS]:
        yield f"  - {_shown(point)}"
    if len(varied) > MOST_POINTS:
        yield f"  - and {len(varied) - MOST_POINTS:,} more"


def _split(experiment: Experiment) -> tuple[Parameters, list[Parameters]]:
    """The parameters that all points share, and the rest of each point."""
    first = experiment.points[0]
    same = {
        name: value
        for name, value in first.items()
        if all(name in point and point[name] == value for point in experiment.points)
    }
    rest: list[Parameters] = [
        {name: value for name, value in point.items() if name not in same} for point in experiment.points
    ]
    return same, rest if len(rest) > 1 else []


def _subject(experiment: Experiment, file: ExperimentFile) -> str:
    subject = experiment.subject
    if isinstance(subject, WorkloadRun):
        return f"workload {subject.workload} on {', '.join(engines_of(experiment, file))}"
    if isinstance(subject, MeasureFunction):
        return f"measure {subject.file}:{subject.function}"
    nodes = sorted({node for task in every_task(subject.tasks) for node in task.nodes})
    tasks = _count(len(list(every_task(subject.tasks))), "task")
    return f"flow of {tasks} for nodes {', '.join(map(str, nodes))} on {', '.join(engines_of(experiment, file))}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _shown(point: Parameters) -> str:
    return " ".join(f"{name}={value}" for name, value in point.items())


def _described(file: ExperimentFile, lacks: list[str]) -> dict[str, Any]:
    return {
        "file": file.path,
        "name": file.name,
        "dialect": file.dialect,
        "dialect_reason": file.dialect_reason,
        "missing": lacks,
        "experiments": [
            {
                "name": each.name,
                "title": each.title,
                "subject": _kind(each),
                "engines": list(engines_of(each, file)),
                "answers": each.answers,
                "repeat": each.repeat,
                "trials": len(each.points) * each.repeat,
                "points": [dict(point) for point in each.points],
            }
            for each in file.experiments
        ],
    }


def _kind(experiment: Experiment) -> dict[str, Any]:
    subject = experiment.subject
    if isinstance(subject, TaskFlow):
        return {"flow": len(list(every_task(subject.tasks)))}
    if isinstance(subject, WorkloadRun):
        return {"workload": subject.workload}
    return {"measure": f"{subject.file}:{subject.function}"}
