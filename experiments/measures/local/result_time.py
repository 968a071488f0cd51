"""Where the time of a result goes, between when its oldest event was due and when the sink has it.

The turns of a run are traced, and results followed back to the source (`runtimes/measured/result_path.py`). Work and
locks of operators before and behind state are added up here: `work` is processor time, `lock` the rest of the turns,
`source` the time until the source reads the oldest event, `turn` that between two turns, `sink` that after the last.
"""

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.rate import Rate
from shoal.errors import RunError
from shoal.experiments.experiment import TrialOutcome
from shoal.model.control.messages import EpochCommitted, RunEnded
from shoal.policies.binding.static import round_robin
from shoal.runtimes.local.runtime import LocalSetup
from shoal.runtimes.local.traced_results import ResultTracedRuntime
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

PARTS = {
    "source": ("source",),
    "turn": ("turn",),
    "work": ("read_work", "state_work"),
    "lock": ("read_lock", "state_lock"),
    "sink": ("sink",),
}
BEGINNING_S = 1.0
"""The first results do not count: channels allocate memory then."""


def parts(workload_name: str, rate: float, seconds: float = 8.0, workers: int = 2) -> TrialOutcome:
    """The mean milliseconds of each part, by results, and their sum; `latency_ms.p99` of the sums."""
    ready = workload(workload_name).ready(0, Amount(int(rate * seconds), Rate.of(str(rate))), {})
    runtime = ResultTracedRuntime(LocalSetup(ready.job.sources, MemorySink()))
    runtime.start(ready.job.graph, round_robin(ready.job.graph, workers))
    epochs = list[EpochCommitted]()
    for event in runtime.events():
        if isinstance(event, RunEnded) and event.error is not None:
            raise event.error
        epochs += [event] if isinstance(event, EpochCommitted) else []
    began_s = epochs[0].at_s - epochs[0].duration_s
    found = runtime.result_times().between(began_s + BEGINNING_S, epochs[-1].at_s)
    if not found.results.size:
        raise RunError(f"no result of {workload_name} could be followed; let it run for more than {seconds:g} s")
    mean_s = found.mean_s()
    metrics = {f"ms.{name}": 1e3 * sum(mean_s[part] for part in of) for name, of in PARTS.items()}
    metrics |= {"latency_ms.mean": sum(metrics.values()), "latency_ms.p99": 1e3 * found.percentile_s(99)}
    return TrialOutcome({**metrics, "results": float(found.results.sum())})
