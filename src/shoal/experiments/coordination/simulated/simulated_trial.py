"""A trial of a flow on a simulated network.

When a node is cut off is known only when the flow has come so far. Simulations repeat exactly, so the flow is then run
again from its beginning, with the failure of that host at that time.
"""

import tempfile
import time
from functools import cache
from pathlib import Path

from shoal.errors import RunError, ShoalError
from shoal.experiments.coordination.flow_run import Watch
from shoal.experiments.coordination.nodes.dataset_rows import DatasetRows, dataset_rows
from shoal.experiments.coordination.simulated.network_plan import NetworkPlan
from shoal.experiments.coordination.simulated.network_refusals import simulation_refusals
from shoal.experiments.coordination.simulated.simulated_flow import (
    DisconnectionFoundError,
    FlowSettings,
    SimulatedFlow,
)
from shoal.experiments.experiment import ExperimentFile, Parameters, TaskFlow, TrialOutcome
from shoal.session.run import Run

NODE_CORES = "workers"
"""The parameter that says how many cores each node has."""


def run_simulated(
    file: ExperimentFile, flow: TaskFlow, parameters: Parameters, deadline_s: float, watch: Watch
) -> TrialOutcome:
    """Simulate a flow; whatever goes wrong is the reason of its failure."""
    if refused := next(simulation_refusals(file, flow), ""):
        return TrialOutcome(failure=refused)
    directory = Path(file.path).absolute().parent

    @cache
    def dataset(number: int) -> DatasetRows:
        return dataset_rows(file.datasets[number], directory, file.streams)

    settings = FlowSettings(
        int(parameters.get(NODE_CORES) or 1),
        {name.removeprefix("conf."): str(value) for name, value in parameters.items() if name.startswith("conf.")},
        dataset,
        lambda: time.monotonic() > deadline_s,
        watch,
    )
    outages: list[tuple[int, float]] = []
    plan = NetworkPlan.of(file, flow)
    try:
        while True:
            simulated = SimulatedFlow(plan, flow, settings, outages)
            try:
                return _outcome(simulated, _ran(simulated, plan, settings, outages))
            except DisconnectionFoundError as found:
                outages.append((found.node, found.at_s))
    except ShoalError as error:
        return TrialOutcome(failure=str(error))


def _ran(simulated: SimulatedFlow, plan: NetworkPlan, settings: FlowSettings, outages: list[tuple[int, float]]) -> Run:
    """Run a flow on the machine of its network."""
    with tempfile.TemporaryDirectory(prefix="shoal-network-") as directory:
        files = {name: Path(directory) / f"{name}.yaml" for name in ("topology", "state_topology")}
        for name, path in files.items():
            text = plan.topology(settings.cores, state=name == "state_topology", outages=outages)
            path.write_text(text, encoding="utf-8")
        places = {
            "sources_at": {plan.file.streams[each].name: node for each, node in plan.senders.items()},
            "results_at": simulated.sinks,
        }
        read = {plan.file.streams[each].name for each in simulated.schedules}
        texts = {
            name: ",".join(
                f"{each}={plan.host(node)}" for each, node in at.items() if name == "results_at" or each in read
            )
            for name, at in places.items()
        }
        return simulated.run({**{name: str(path) for name, path in files.items()}, **texts})


def _outcome(simulated: SimulatedFlow, run: Run) -> TrialOutcome:
    refused = {reason: each for reason, each in run.tally.refusals.items() if reason not in ("late", LOST)}
    if refused:
        reason, number = next(iter(refused.items()))
        raise RunError(
            f"the queries have refused {number} rows: {reason}; correct the dataset or the stream definition"
        )
    moves, latency = simulated.moves.metrics(), run.tally.latency_ms()
    metrics = {
        "simulated_s": run.runtime.now_s(),
        "results": float(sum(each.rows for each in simulated.sink.digests.values())),
        **{f"latency_ms.{name}": value for name, value in latency.items()},
        **{f"node{node}.received": float(rows) for node, rows in sorted(simulated.counts.received.items())},
        **moves,
    }
    if lost := run.tally.refusals.get(LOST, 0):
        metrics["lost.rows"] = float(lost)
    if late := run.tally.refusals.get("late", 0):
        metrics["late_rows"] = float(late)
    answers = {
        f"{table} at node {simulated.sinks[table]}" if table in simulated.sinks else table: digest.text
        for table, digest in sorted(simulated.sink.digests.items())
    }
    return TrialOutcome(metrics=metrics, answers=answers, series=_series(simulated), trace=tuple(simulated.trace))


LOST = "lost with a host"


def _series(simulated: SimulatedFlow) -> dict[str, list[list[float]]]:
    """Latencies over time, for every table and for every plot that the file declares."""
    found = {f"latency_ms.{table}": points for table, points in simulated.latency.items()}
    delays = [
        [move.report.at_s, 1e3 * max((each.emission_delay_s or 0.0) for each in move.report.moves)]
        for move in simulated.moves.made
        if not move.placing and move.report is not None and move.report.moves
    ]
    for plot in simulated.plan.file.plots:
        number = str(plot.values.get("query-id", ""))
        deployment = next((each for each in simulated.plan.deployments.values() if str(each.number) == number), None)
        if "latency" not in plot.type.casefold():
            found[plot.name] = delays
        elif deployment is not None:
            found[plot.name] = simulated.latency.get(simulated.plan.table(deployment), [])
    return found
