"""A trial of a flow: nodes are made, the coordinator carries out the tasks, and traces become metrics."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from shoal.errors import ConfigError, ShoalError, did_you_mean
from shoal.experiments.coordination.flow_run import FlowRun, Watch
from shoal.experiments.coordination.node_link import NeighbourNodes, NodeLink, NodeReport, ThreadNode
from shoal.experiments.coordination.nodes.flow_node import NodeSetup
from shoal.experiments.coordination.simulated.simulated_trial import run_simulated
from shoal.experiments.coordination.throughput import sets_of, throughput_metrics
from shoal.experiments.coordination.wire.registration import REGISTER_S, Registration, RemoteNode
from shoal.experiments.coordination.wire.token import known_token, new_token
from shoal.experiments.coordination.wire.wire_messages import Begin
from shoal.experiments.experiment import Experiment, ExperimentFile, Parameters, TaskFlow, TrialOutcome
from shoal.experiments.language.experiment_file import flow_for
from shoal.experiments.language.task_check import every_task
from shoal.experiments.requirements import engine_at, is_simulated, unsupported

NODES, WORKERS, TRACE = "nodes", "workers", "trace"
"""Parameters of every flow: where its nodes are, how many workers each engine has, and whether anything is traced."""
PLACES = ("in-process", "processes", "remote")
LISTEN = "SHOAL_EXPERIMENT_LISTEN"
"""The variable that says where to listen for nodes of other hosts, which are then waited for."""
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
    if reason := unsupported(file, flow, parameters):
        return TrialOutcome(unsupported=reason)
    deadline_s = began_s + SHARE * experiment.timeout_s
    if is_simulated(file, parameters):
        return run_simulated(file, flow, parameters, deadline_s, watch)
    numbers = sorted({node for task in every_task(flow.tasks) for node in task.nodes})
    subject = next(
        (node for task in every_task(flow.tasks) if task.name == "deployQueries" for node in task.nodes), None
    )
    try:
        with _nodes(file, parameters, numbers) as nodes:
            run = FlowRun(nodes, file.dialect, deadline_s, watch)
            for node in nodes.values():
                if isinstance(node, RemoteNode):
                    node.listen(run.fail)
            run.run(flow.tasks)
            reports = {number: node.report() for number, node in nodes.items()}
    except ShoalError as error:
        return TrialOutcome(failure=str(error))
    return _outcome(reports, subject)


@contextmanager
def _nodes(file: ExperimentFile, parameters: Parameters, numbers: list[int]) -> Iterator[Mapping[int, NodeLink]]:
    """All nodes of a flow; afterwards none of them is left."""
    place = str(parameters.get(NODES, PLACES[2] if LISTEN in os.environ else PLACES[0]))
    if place not in PLACES:
        raise ConfigError(f"nodes must be {' or '.join(PLACES)}; got {place!r}{did_you_mean(place, PLACES)}")
    opened = (
        _threads(file, parameters, numbers) if place == PLACES[0] else _registered(file, parameters, numbers, place)
    )
    with opened as nodes:
        yield nodes


@contextmanager
def _threads(file: ExperimentFile, parameters: Parameters, numbers: list[int]) -> Iterator[Mapping[int, NodeLink]]:
    neighbours, nodes = NeighbourNodes(), {}
    try:
        for number in numbers:
            nodes[number] = ThreadNode(_setup(file, parameters, number), neighbours)
        yield nodes
    finally:
        for node in nodes.values():
            node.close()


@contextmanager
def _registered(
    file: ExperimentFile, parameters: Parameters, numbers: list[int], place: str
) -> Iterator[Mapping[int, NodeLink]]:
    """Nodes that connect: children of this process, or those that somebody starts elsewhere."""
    own = place == PLACES[1]
    host, port = ("127.0.0.1", 0) if own else listening_address(os.environ.get(LISTEN, ""))
    registration = Registration(host, port, new_token() if own else known_token())
    try:
        if own:
            for number in numbers:
                registration.start(number, str(Path(file.path).absolute().parent), os.environ)
        nodes = registration.await_nodes(numbers, time.monotonic() + REGISTER_S)
        setup = _setup(file, parameters, 0)
        begin = Begin(
            Path(file.path).name,
            Path(file.path).read_text(encoding="utf-8"),
            setup.engine,
            setup.settings,
            setup.workers,
            setup.traced,
            {number: node.address for number, node in nodes.items()},
        )
        for node in nodes.values():
            node.tell(begin)
        yield nodes
    finally:
        registration.close()


def listening_address(text: str) -> tuple[str, int]:
    """Where a coordinator listens for nodes of other hosts.

    >>> listening_address("10.0.0.1:7000")
    ('10.0.0.1', 7000)
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ConfigError(f"an address must be HOST:PORT, as in 10.0.0.1:7000; got {text or 'none'}")
    return host, int(port)


def _setup(file: ExperimentFile, parameters: Parameters, number: int) -> NodeSetup:
    return NodeSetup(
        number,
        engine_at(file, parameters),
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
