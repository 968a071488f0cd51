"""What a file needs and this machine does not have: engines that are not installed, files that are not there."""

from collections.abc import Iterator
from pathlib import Path

from shoal.errors import ShoalError
from shoal.experiments.coordination.deployed import engine_job
from shoal.experiments.coordination.flow_support import refused_tasks
from shoal.experiments.coordination.simulated.network_refusals import simulation_refusals
from shoal.experiments.engines.catalog import ENGINES, engine_named
from shoal.experiments.engines.own.shoal_queries import shoal_graph
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

SHOAL = "shoal"
"""The key under `sql-query` of texts that all of Shoal's runtimes read."""
DEFAULT_ENGINE, SIMULATED_ENGINE = "shoal-local", "shoal-simulated"


def engine_at(file: ExperimentFile, point: Parameters) -> str:
    """The engine of a point; unless it names one, that of a file with a network is simulated."""
    return str(point.get(ENGINE, SIMULATED_ENGINE if file.network else DEFAULT_ENGINE))


def is_simulated(file: ExperimentFile, point: Parameters) -> bool:
    """Whether the nodes of a flow are hosts of a simulated network."""
    return file.network is not None and engine_at(file, point) == SIMULATED_ENGINE


def engines_of(experiment: Experiment, file: ExperimentFile) -> tuple[str, ...]:
    """The engines of an experiment, each once; a measure function uses what it likes."""
    if isinstance(experiment.subject, MeasureFunction):
        return ()
    return tuple(dict.fromkeys(engine_at(file, point) for point in experiment.points))


def lacking(file: ExperimentFile) -> Iterator[str]:
    """What must be there before all experiments of a file can run, one line each."""
    engines = dict.fromkeys(engine for experiment in file.experiments for engine in engines_of(experiment, file))
    for name in engines:
        if missing := engine_named(name).missing() if name in ENGINES else "":
            yield f"engine {name}: {missing}"
    for number, dataset in file.datasets.items():
        if dataset.file and not dataset_path(file, number).exists():
            what = f"{'directory' if dataset.format else 'file'} {dataset.file}"
            yield f"{dataset.part.where}: dataset {number}: there is no {what} beside the experiment file"
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
        name = engine_at(file, point)
        languages = engine_named(name).languages if name in ENGINES else ()
        flow = flow_for(file, experiment.subject, point)
        if is_simulated(file, point):
            yield from simulation_refusals(file, flow)
        else:
            yield from refused_tasks(flow, name)
        for query in deployed(file, flow):
            if query.graph is None and name not in query.unsupported:
                yield from _unreadable(file, query, name, languages)


def deployed(file: ExperimentFile, flow: TaskFlow) -> Iterator[DeclaredQuery]:
    """The queries that a flow deploys, at a point."""
    for task in every_task(flow.tasks):
        if task.name == "deployQueries":
            yield file.queries[task.arguments[0]]


def unsupported(file: ExperimentFile, flow: TaskFlow, parameters: Parameters) -> str:
    """Why the engine of a point cannot run the queries of its flow, as the file declares; empty if it can."""
    name = engine_at(file, parameters)
    reasons = [query.unsupported[name] for query in deployed(file, flow) if name in query.unsupported]
    return "; ".join(dict.fromkeys(reasons))


def _unreadable(file: ExperimentFile, query: DeclaredQuery, engine: str, languages: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with the text that an engine would get of a query; of SQL, texts for Shoal are parsed."""
    text = next((query.sql[each] for each in languages if each in query.sql), "")
    if not text:
        known = ", ".join(query.sql) or "none"
        yield (
            f"{query.where}: query {query.id} ({query.name}): engine {engine} reads "
            f"{' or '.join(languages) or 'no text'}, and sql-query has {known}"
        )
    elif program := program_of(text):
        if fault := program.fault(Path(file.path).parent):
            yield f"{query.where}: query {query.id} ({query.name}): {fault}"
    elif SHOAL in languages:
        try:
            shoal_graph(engine, engine_job(file, (query.id,), languages))
        except ShoalError as error:
            yield f"{query.where}: {error}"
