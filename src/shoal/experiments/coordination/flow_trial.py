"""A trial of a flow: nodes are made, the coordinator carries out the tasks, and traces become metrics."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from shoal.errors import ConfigError, ShoalError, did_you_mean
from shoal.experiments.coordination.flow_run import FlowRun, Watch
from shoal.experiments.coordination.node_link import NeighbourNodes, NodeLink, NodeReport, ThreadNode
from shoal.experiments.coordination.nodes.node import NodeSetup
from shoal.experiments.coordination.throughput import sets_of, throughput_metrics
from shoal.experiments.experiment import ENGINE, Experiment, ExperimentFile, Parameters, TaskFlow, TrialOutcome
from shoal.experiments.language.experiment_file import flow_for
from shoal.experiments.language.task_check import every_task
from shoal.experiments.requirements import DEFAULT_ENGINE

NODES, WORKERS, TRACE = "nodes", "workers", "trace"
"""Parameters of every flow: where its nodes are, how many workers each engine has, and whether anything is traced."""
PLACES = ("in-process", "processes", "remote")
SHARE = 0.95
"""The share of a trial's time after which a flow gives up by itself, so that its reason can say what it waited for."""


def run_flow(
    file: ExperimentFile, experiment: Experiment, parameters: Parameters, watch: Watch = lambda _number, _task: None
) -> TrialOutcome:
    """Run the flow of an experiment at a point; whatever goes wrong is the reason of its failure."""
    if not isinstance(experiment.subject, TaskFlow):
        raise ConfigError(f"experiment {experiment.name!r} has no flow of tasks")
    began_s = time.monotonic()
    flow = flow_for(file, experiment.subject, parameters)
    numbers = sorted({node for task in every_task(flow.tasks) for node in task.nodes})
    subject = next(
        (node for task in every_task(flow.tasks) if task.name == "deployQueries" for node in task.nodes), None
    )
    try:
        with _nodes(file, parameters, numbers) as nodes:
            run = FlowRun(nodes, file.dialect, began_s + SHARE * experiment.timeout_s, watch)
            run.run(flow.tasks)
            reports = {number: node.report() for number, node in nodes.items()}
    except ShoalError as error:
        return TrialOutcome(failure=str(error))
    return _outcome(reports, subject)


@contextmanager
def _nodes(file: ExperimentFile, parameters: Parameters, numbers: list[int]) -> Iterator[Mapping[int, NodeLink]]:
    """All nodes of a flow; afterwards none of them is left."""
    place = str(parameters.get(NODES, PLACES[0]))
    if place not in PLACES:
        raise ConfigError(f"nodes must be {' or '.join(PLACES)}; got {place!r}{did_you_mean(place, PLACES)}")
    neighbours, nodes = NeighbourNodes(), {}
    try:
        for number in numbers:
            nodes[number] = ThreadNode(_setup(file, parameters, number), neighbours)
        yield nodes
    finally:
        for node in nodes.values():
            node.close()


def _setup(file: ExperimentFile, parameters: Parameters, number: int) -> NodeSetup:
    return NodeSetup(
        number,
        str(parameters.get(ENGINE, DEFAULT_ENGINE)),
        file,
        Path(file.path).absolute().parent,
        {name.removeprefix("conf."): str(value) for name, value in parameters.items() if name.startswith("conf.")},
        int(parameters.get(WORKERS) or 1),
        bool(parameters.get(TRACE, True)),
    )


def _outcome(reports: Mapping[int, NodeReport], subject: int | None) -> TrialOutcome:
    traces = {number: report.trace for number, report in reports.items()}
    answers = {
        f"{stream} at node {number}": digest
        for number, report in reports.items()
        for stream, digest in report.digests.items()
    }
    first_ns = min((record.at_ns for trace in traces.values() for record in trace), default=0)
    return TrialOutcome(
        metrics=throughput_metrics(traces, subject),
        answers=answers,
        series={
            f"node{number}.tps": [[(each.began_ns - first_ns) / 1e9, each.rows_per_s] for each in sets_of(trace)[0]]
            for number, trace in traces.items()
            if sets_of(trace)[0]
        },
        trace=tuple(f"{number} {record.line}" for number, trace in traces.items() for record in trace),
    )
