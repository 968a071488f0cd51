"""What a flow says about its simulated network before anything happens: hosts, queries, sources, sinks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from shoal.errors import ShoalError
from shoal.experiments.coordination.simulated.event_times import with_lateness
from shoal.experiments.coordination.simulated.stateful_operators import StatefulOperators
from shoal.experiments.engines.contract import EngineJob, EngineQuery
from shoal.experiments.engines.own.shoal_queries import shoal_graph
from shoal.experiments.engines.own.shoal_simulated import SIMULATED
from shoal.experiments.experiment import DeclaredQuery, ExperimentFile, NetworkSpec, Task, TaskFlow
from shoal.experiments.language.task_check import every_task, nodes_of
from shoal.model.query.graph import Graph

PLACES = {"addPotentialHost": "hosts", "addSourceNode": "sources", "addSinkNode": "sinks"}


@dataclass
class Deployment:
    """A query under the number that tasks know it by, and the nodes that have to do with it."""

    number: int
    query: DeclaredQuery
    task: Task
    hosts: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    sinks: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the query in the run."""
        return f"{self.query.name}-{self.number}"


@dataclass(frozen=True)
class NetworkPlan:
    """The static part of a flow: its nodes, deployed queries by number, and which node sends which stream."""

    file: ExperimentFile
    nodes: tuple[int, ...]
    deployments: Mapping[int, Deployment]
    senders: Mapping[int, int]

    @classmethod
    def of(cls, file: ExperimentFile, flow: TaskFlow) -> "NetworkPlan":
        """The plan of a flow, whose tasks have been checked."""
        deployments: dict[int, Deployment] = {}
        for task in every_task(flow.tasks):
            if task.name == "deployQueries":
                query, number = task.arguments
                deployments.setdefault(number, Deployment(number, file.queries[query], task))
        senders: dict[int, int] = {}
        for task in every_task(flow.tasks):
            if task.name in PLACES:
                nodes, number = task.arguments
                getattr(deployments[number], PLACES[task.name]).extend(nodes)
            elif task.name.startswith("send"):
                for stream in streams_of(file, task):
                    senders.setdefault(stream, task.nodes[0])
        return cls(file, nodes_of(flow.tasks), deployments, senders)

    def table(self, deployment: Deployment) -> str:
        """The table that the results of a query go to: its output stream, or one of its own."""
        output = deployment.query.output
        return self.file.streams[output].name if output is not None else deployment.name

    def job(self) -> EngineJob:
        """All deployed queries, over all streams."""
        queries = [
            EngineQuery(
                each.name,
                self.table(each),
                next((each.query.sql[word] for word in SIMULATED.languages if word in each.query.sql), ""),
                each.query.graph,
            )
            for each in self.deployments.values()
        ]
        outputs = {each.output for each in queries}
        streams = {each.name: each for each in self.file.streams.values() if each.name not in outputs}
        return EngineJob(streams, tuple(queries))

    def graph(self, lateness_us: Mapping[str, int] | None = None) -> Graph:
        """All deployed queries as one graph; raises a `ConfigError` that names the one that cannot run.

        `lateness_us`: by how much the watermarks of streams stay back at least.
        """
        graph = shoal_graph(SIMULATED.name, self.job())
        return Graph.of([with_lateness(query, lateness_us or {}) for query in graph.queries.values()])

    def operators(self, deployment: Deployment, graph: Graph) -> StatefulOperators:
        """The operators of a query that have state."""
        return StatefulOperators.of(graph, deployment.name, deployment.query.operators)

    def host(self, node: int) -> str:
        """The name of the host of a node."""
        return f"node-{node}"

    def topology(self, cores: int, *, state: bool, outages: Iterable[tuple[int, float]] = ()) -> str:
        """The machine file: a star of all nodes, with the links of tuples or those of state."""
        network = self.file.network or NetworkSpec(1e9, 1e9)
        bits = network.state_bits_per_s if state else network.tuple_bits_per_s
        latency_us = network.state_latency_us if state else network.tuple_latency_us
        lines = [
            "hosts:",
            *(f"- {{name: {self.host(node)}, cores: {cores}}}" for node in self.nodes),
            f"star: {{bandwidth: {bits / 8!r}, latency: {latency_us / 2e6!r}}}",
        ]
        failures = [f"- {{host: {self.host(node)}, at: {at_s!r}}}" for node, at_s in outages]
        return "\n".join([*lines, *(["outages:", *failures] if failures else [])]) + "\n"


def streams_of(file: ExperimentFile, task: Task) -> tuple[int, ...]:
    """The streams of which a task sends rows, as far as it can be known without reading the dataset."""
    if task.name.endswith("SpecificStream"):
        return (task.arguments[1],)
    dataset = file.datasets[task.arguments[0]]
    if dataset.stream:
        return tuple(number for number, stream in file.streams.items() if stream.name == dataset.stream)
    read: set[str] = set()
    for query in file.queries.values():
        if query.graph is not None:
            read |= set(query.graph.streams)
    return tuple(number for number, stream in file.streams.items() if stream.name in read or not read)


def shared_operators(plan: NetworkPlan, graph: Graph) -> Iterator[str]:
    """Queries that would move together, since they have an operator with state in common."""
    owners: dict[str, Deployment] = {}
    for each in plan.deployments.values():
        for instance in plan.operators(each, graph).instances:
            other = owners.setdefault(instance, each)
            if other is not each:
                yield (
                    f"{each.task.where}: query {each.number} shares operators with query {other.number}, so that it "
                    "cannot be moved alone; deploy one of them, or different queries"
                )
                break


def graph_or_reason(plan: NetworkPlan) -> tuple[Graph | None, str]:
    """The graph of a plan, or why there is none."""
    try:
        return plan.graph(), ""
    except ShoalError as error:
        where = next(iter(plan.deployments.values())).task.where if plan.deployments else plan.file.path
        return None, f"{where}: {error}"
