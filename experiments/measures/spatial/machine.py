"""The hotspot under the policies that divide the plane, on the machine itself: two threads, or four slots of Spark.

Rows come as fast as they are read. `hot_s` follows from the number of events, so that the hotspot is the middle half of
the run. `history-grid` makes its partitions of what came before it: `profile_s` is shorter than a quarter of the run.
"""

from dataclasses import dataclass
from typing import Any

from measures.outcome import checked
from shoal.control.settings import ControlSettings
from shoal.experiments.experiment import TrialOutcome
from shoal.session.digest import differences, result_digest
from shoal.session.results import written_results
from shoal.session.run import start
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

PER_S = 100_000
"""Points per second of event time."""


@dataclass(frozen=True)
class Machine:
    """How a runtime of the machine is used: workers, rows per epoch, the length of a round of the policies, rows."""

    workers: int
    epoch_rows: int
    round_s: float
    profile_s: float
    events: int


MACHINES = {"local": Machine(2, 50_000, 0.2, 0.3, 4_000_000), "spark": Machine(4, 100_000, 1.0, 4.0, 4_000_000)}


def policies(on: str, policy: str, events: int = 0, subscriptions: int = 5_000, side: float = 0.004) -> TrialOutcome:
    """A run under a policy; `swarm+measured` stands for the policy with measured costs; 0 events: as many as usual."""
    machine = MACHINES[on]
    events = events or machine.events
    name, _, cost = policy.partition("+")
    length_s = events / PER_S
    settings: dict[str, Any] = {"queries": "matches", "scenario": "step", "per_s": PER_S, "side": side}
    settings |= {"subscriptions": subscriptions, "hot_from_s": length_s / 4, "hot_s": length_s / 2}
    settings |= {"partitions": machine.workers}
    control = {"round_s": machine.round_s, "profile_s": machine.profile_s, "beta": 4, "cost": cost or "product"}
    amount = Amount(events, None, machine.epoch_rows)
    ready = workload("geo-pubsub").ready(0, amount, {key: str(value) for key, value in settings.items()})
    run = start(
        ready.job,
        on=on,
        workers=machine.workers,
        policy=name,
        control=ControlSettings.of({key: str(value) for key, value in control.items()}),
        spark=_session() if on == "spark" else None,
    )
    partitions = 0

    def count(_: Any, epoch: Any) -> None:
        nonlocal partitions
        partitions = len(epoch.snapshot.binding.worker_of)

    tally = run.wait(count)
    tables = written_results(run.sink, ready.job.graph)
    metrics = {
        "events_per_s": tally.events / tally.elapsed_s,
        **{f"latency_ms.{part}": value for part, value in tally.latency_ms().items()},
        "moves": tally.moves,
        "partitions": partitions,
    }
    wrong = differences(tables, ready.expected(run.consumed))
    return checked(metrics, wrong, {"results": result_digest(tables)})


def _session() -> Any:
    """Four slots, so that a hot partition leaves others idle."""
    from shoal.runtimes.spark.cluster.session import spark_session

    return spark_session({"spark.master": "local[4,4]"})
