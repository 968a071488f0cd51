"""What a file needs and this machine does not have: engines that are not installed, files that are not there."""

from collections.abc import Iterator
from pathlib import Path

from shoal.experiments.coordination.flow_support import refused_tasks
from shoal.experiments.engines.catalog import ENGINES, engine_named
from shoal.experiments.experiment import (
    ENGINE,
    DeclaredQuery,
    Experiment,
    ExperimentFile,
    MeasureFunction,
    Parameters,
    TaskFlow,
)
from shoal.experiments.language.experiment_file import flow_for
from shoal.experiments.language.query_program import program_of
from shoal.experiments.language.task_check import every_task

DEFAULT_ENGINE = "shoal-local"


def engines_of(experiment: Experiment) -> tuple[str, ...]:
    """The engines of an experiment, each once; a measure function uses what it likes."""
    if isinstance(experiment.subject, MeasureFunction):
        return ()
    return tuple(dict.fromkeys(str(point.get(ENGINE, DEFAULT_ENGINE)) for point in experiment.points))


def lacking(file: ExperimentFile) -> Iterator[str]:
    """What must be there before all experiments of a file can run, one line each."""
    engines = dict.fromkeys(engine for experiment in file.experiments for engine in engines_of(experiment))
    for name in engines:
        if missing := engine_named(name).missing() if name in ENGINES else "":
            yield f"engine {name}: {missing}"
    for number, dataset in file.datasets.items():
        if dataset.file and not dataset_path(file, number).exists():
            yield f"dataset {number}: there is no {'directory' if dataset.format else 'file'} {dataset.file}"
    for experiment in file.experiments:
        yield from dict.fromkeys(_unspoken(file, experiment))


def dataset_path(file: ExperimentFile, number: int) -> Path:
    """Where a dataset is: paths are relative to the file that has them."""
    return Path(file.path).parent / file.datasets[number].file


def _unspoken(file: ExperimentFile, experiment: Experiment) -> Iterator[str]:
    """Tasks that cannot be done, and queries that a flow deploys on an engine for which the file has no text."""
    if not isinstance(experiment.subject, TaskFlow):
        return
    for point in experiment.points:
        name = str(point.get(ENGINE, DEFAULT_ENGINE))
        languages = engine_named(name).languages if name in ENGINES else ()
        flow = flow_for(file, experiment.subject, point)
        yield from refused_tasks(flow, name)
        for query in deployed(file, flow):
            if query.graph is None and name not in query.unsupported:
                yield from _unreadable(query, name, languages, Path(file.path).parent)


def deployed(file: ExperimentFile, flow: TaskFlow) -> Iterator[DeclaredQuery]:
    """The queries that a flow deploys, at a point."""
    for task in every_task(flow.tasks):
        if task.name == "deployQueries":
            yield file.queries[task.arguments[0]]


def unsupported(file: ExperimentFile, flow: TaskFlow, parameters: Parameters) -> str:
    """Why the engine of a point cannot run the queries of its flow, as the file declares; empty if it can."""
    name = str(parameters.get(ENGINE, DEFAULT_ENGINE))
    reasons = [query.unsupported[name] for query in deployed(file, flow) if name in query.unsupported]
    return "; ".join(dict.fromkeys(reasons))


def _unreadable(query: DeclaredQuery, engine: str, languages: tuple[str, ...], directory: Path) -> Iterator[str]:
    """What is wrong with the text that an engine would get of a query."""
    text = next((query.sql[each] for each in languages if each in query.sql), "")
    if not text:
        known = ", ".join(query.sql) or "none"
        yield (
            f"query {query.id} ({query.name}): engine {engine} reads {' or '.join(languages) or 'no text'}, "
            f"and sql-query has {known}"
        )
    elif (program := program_of(text)) and (fault := program.fault(directory)):
        yield f"query {query.id} ({query.name}): {fault}"
