"""What a flow asks of its simulated network that cannot be done, known before anything starts."""

from collections.abc import Callable, Iterator, Mapping

from shoal.experiments.coordination.simulated.network_plan import (
    NetworkPlan,
    graph_or_reason,
    shared_operators,
    streams_of,
)
from shoal.experiments.experiment import ExperimentFile, Task, TaskFlow
from shoal.experiments.language.task_check import every_task
from shoal.experiments.language.task_table import NO_MIGRATION
from shoal.model.query.graph import Graph

MOVES = ("adapt", "migrate", "moveQueryState", "moveStaticQueryState", "moveDynamicQueryState")
HOLDS = ("bufferStream", "stopStream", "resumeStream", "relayStream")
TASKS = (
    *("deployQueries", "addPotentialHost", "addSourceNode", "addSinkNode", *MOVES, *HOLDS),
    *("sendDsAsStream", "sendDsAsConstantStream", "sendDsAsVariableOnOffStream"),
    *("sendDsAsSpecificStream", "sendNRowsDsAsSpecificStream", "disconnectNode", "wait"),
    *("retWhenReceived", "retReceivedXTuples", "retWhenProcessed", "retEndOfStream"),
    *("loopTasks", "runParallel", "batchTasks", "traceTuple", "enableTrace", "disableTrace", "addTpIds"),
    *("addSchemas", "setNidToAddress", "startExperiment", "endExperiment"),
)
"""The tasks of a flow on a simulated network."""
INSTEAD: Mapping[str, str] = {
    "addNextHop": "rows go from source nodes to where their query is, and results to its sink node: say addSourceNode "
    "and addSinkNode",
    "removeNextHop": "rows go to where their query is: say adapt or migrate",
    "startRuntimeEnv": "queries run from the beginning; leave it out",
    "stopRuntimeEnv": "queries run to the end; leave it out",
    "clearQueries": "queries run to the end; deploy only those that are needed",
    "setParallelism": "give the cores of each node by the parameter 'workers'",
    "writeStreamToCsv": "results are compared by digests; run the query on nodes to have its rows",
}
"""What to do instead of tasks that have no meaning here."""
PLOTS = ("Input-latency", "Window-emission-delay")
"""The types of plots that a simulated flow has a series for."""


def simulation_refusals(file: ExperimentFile, flow: TaskFlow) -> Iterator[str]:
    """One line for everything that cannot be done."""
    refused = [_refused_task(task) for task in every_task(flow.tasks) if task.name not in TASKS]
    yield from refused
    if refused:
        return
    plan = NetworkPlan.of(file, flow)
    graph, reason = graph_or_reason(plan)
    if not plan.deployments or graph is None:
        yield reason or f"{file.path}: a flow on a simulated network must deploy a query; say deployQueries"
        return
    yield from _queries(plan, flow, graph)
    for task in every_task(flow.tasks):
        check = _CHECKS.get(task.name) or (_sends if task.name.startswith("send") else None)
        if check is not None:
            yield from check(plan, task, graph)
    yield from _pairs(list(every_task(flow.tasks)))
    for plot in file.plots:
        if plot.type.replace(" ", "-").casefold() not in (each.casefold() for each in PLOTS):
            yield f"{file.path}: type of plot {plot.name!r} must be {' or '.join(PLOTS)}; got {plot.type!r}"


def _refused_task(task: Task) -> str:
    instead = INSTEAD.get(task.name, f"there are {', '.join(sorted(TASKS))}")
    return f"{task.where}: task {task.name} cannot be done on a simulated network; {instead}"


def _queries(plan: NetworkPlan, flow: TaskFlow, graph: Graph) -> Iterator[str]:
    """Queries must be deployed once, before rows are sent, and be placed somewhere."""
    yield from shared_operators(plan, graph)
    sent, placed, deployed = False, set[int](), set[int]()
    for task in every_task(flow.tasks):
        if task.name.startswith("send"):
            for each in plan.deployments.values() if not sent else ():
                if each.number not in placed and not each.hosts:
                    yield (
                        f"{task.where}: query {each.number} has no place when rows are sent; say before it where the "
                        f"query is, as in adapt [{each.number}, {plan.nodes[0]}, drop-state], or addPotentialHost"
                    )
            sent = True
        elif task.name == "deployQueries":
            if task.arguments[1] in deployed:
                yield f"{task.where}: query {task.arguments[1]} is deployed twice; give the second another number"
            if sent:
                yield f"{task.where}: queries must be deployed before rows are sent; move deployQueries up"
            deployed.add(task.arguments[1])
        elif task.name == "adapt":
            placed.add(task.arguments[0])
    for each in plan.deployments.values():
        if not plan.operators(each, graph).instances:
            yield (
                f"{each.task.where}: query {each.number} ({each.query.name}) has no operator with state, so nothing of "
                "it can be placed or moved; run it without 'network'"
            )
        if len(set(each.sinks)) > 1:
            listed = ", ".join(map(str, each.sinks))
            yield f"{each.task.where}: query {each.number} must have one sink node; got {listed}"


def _sends(plan: NetworkPlan, task: Task, graph: Graph) -> Iterator[str]:
    if len(task.nodes) > 1:
        yield f"{task.where}: {task.name} must be done by one node here; got {', '.join(map(str, task.nodes))}"
        return
    (node,) = task.nodes
    for stream in streams_of(plan.file, task):
        name = plan.file.streams[stream].name
        if plan.senders[stream] != node:
            yield (
                f"{task.where}: stream {name} is sent by node {plan.senders[stream]} already; on a simulated network "
                "every stream has one node that sends it"
            )
        for each in plan.deployments.values():
            reads = name in graph.queries[each.name].streams
            if reads and each.sources and node not in each.sources:
                listed = ", ".join(map(str, each.sources))
                yield (
                    f"{task.where}: node {node} sends stream {name} of query {each.number}, whose source nodes are "
                    f"{listed}; say addSourceNode [{node}, {each.number}]"
                )


def _moves(plan: NetworkPlan, task: Task, graph: Graph) -> Iterator[str]:
    """Targets must be hosts of the query, and operators must have state."""
    if task.name == "adapt":
        number, target, operator = task.arguments[0], task.arguments[1], ""
    elif task.name == "migrate":
        target, number, operator = task.arguments[0], task.arguments[1], task.arguments[3]
    else:
        number, target, operator = task.arguments[0], task.arguments[1], ""
    deployment = plan.deployments[number]
    if deployment.hosts and target not in deployment.hosts:
        listed = ", ".join(map(str, deployment.hosts))
        yield f"{task.where}: {task.name} must move query {number} to one of its potential hosts {listed}; got {target}"
    if operator:
        yield from _operator(plan, task, graph, number, operator)


def _operator(plan: NetworkPlan, task: Task, graph: Graph, number: int, operator: str) -> Iterator[str]:
    operators = plan.operators(plan.deployments[number], graph)
    if not operators.named(operator):
        yield (
            f"{task.where}: operator of {task.name} must have state of its own; query {number} has {operators.known}; "
            f"got {operator!r}"
        )


def _processed(plan: NetworkPlan, task: Task, graph: Graph) -> Iterator[str]:
    yield from _operator(plan, task, graph, task.arguments[1], task.arguments[2])


def _holds(plan: NetworkPlan, task: Task, _: Graph) -> Iterator[str]:
    for stream in task.arguments[0]:
        sender, name = plan.senders.get(stream), plan.file.streams[stream].name
        if sender is None:
            yield f"{task.where}: {task.name} is of stream {name}, which no task of the flow sends"
        elif any(node != sender for node in task.nodes):
            yield (
                f"{task.where}: on a simulated network {task.name} is done where the stream is sent; stream {name} is "
                f"sent by node {sender}"
            )


def _disconnects(plan: NetworkPlan, task: Task, _: Graph) -> Iterator[str]:
    needed = {*plan.senders.values(), *(node for each in plan.deployments.values() for node in each.sinks)}
    for node in task.nodes:
        if node in needed:
            others = ", ".join(str(each) for each in plan.nodes if each not in needed) or "none"
            yield (
                f"{task.where}: node {node} sends rows or receives results, so nothing can go on without it; nodes "
                f"that can be cut off are {others}"
            )


def _pairs(tasks: list[Task]) -> Iterator[str]:
    """Streams that are relayed must follow a query; static state must be followed by the state that changes."""
    for at, task in enumerate(tasks):
        later = tasks[at + 1 :]
        if task.name == "relayStream" and not any(
            each.name in MOVES and _target(each) in task.arguments[2] for each in later
        ):
            listed = ", ".join(map(str, task.arguments[2]))
            yield f"{task.where}: streams are relayed to node {listed}, and no later task moves a query there"
        if task.name == "moveStaticQueryState":
            after = next((each for each in later if each.name not in HOLDS), None)
            if after is None or after.name != "moveDynamicQueryState" or after.arguments != task.arguments:
                yield (
                    f"{task.where}: moveStaticQueryState must be followed by moveDynamicQueryState of the same query "
                    "to the same node: on a simulated network both are one move, a copy and what has changed since"
                )
        if task.name == "moveDynamicQueryState":
            before = next((each for each in reversed(tasks[:at]) if each.name not in HOLDS), None)
            if before is None or before.name != "moveStaticQueryState":
                yield f"{task.where}: moveDynamicQueryState must follow moveStaticQueryState of the same query"


def _target(task: Task) -> int | None:
    """The node that a task moves a query to; none if it moves nothing."""
    if task.name == "migrate":
        return None if task.arguments[2] == NO_MIGRATION else int(task.arguments[0])
    if task.name == "adapt" and task.arguments[2] == NO_MIGRATION:
        return None
    return int(task.arguments[1])


_CHECKS: Mapping[str, Callable[[NetworkPlan, Task, Graph], Iterator[str]]] = {
    **dict.fromkeys(MOVES, _moves),
    **dict.fromkeys(HOLDS, _holds),
    "retWhenProcessed": _processed,
    "disconnectNode": _disconnects,
}
