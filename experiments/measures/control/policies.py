"""What a binding policy costs: one proposal for the instances of a skewed city.

Some regions are far busier than others, and everything is bound by partition to 2 nodes of 4 workers. Time is processor
time of one call, so that other work on the machine does not count.
"""

import time
from statistics import median

import numpy as np

from shoal.control.observation import peak
from shoal.errors import ConfigError
from shoal.experiments.experiment import TrialOutcome
from shoal.model.control.binding import Binding
from shoal.model.control.topology import Topology
from shoal.model.query.graph import OPERATOR_KINDS, Graph
from shoal.policies.binding.layout import ROW_BYTES, Layout
from shoal.policies.binding.loads import Loads, summed
from shoal.policies.catalog import DYNAMIC
from shoal.workloads.traffic.queries import queries

TOPOLOGY = Topology.of(nodes=2, workers=8)


def proposals(policy: str, regions: int, cities: int = 15) -> TrialOutcome:
    """Proposals for some cities after a first one; `peak` is how far the busiest worker is above the mean."""
    if policy not in DYNAMIC:
        raise ConfigError(f"policy must be one of {', '.join(DYNAMIC)}; got {policy!r}")
    chosen, instances = DYNAMIC[policy], 0
    took_ms, moves = list[float](), list[int]()
    before, after = list[float](), list[float]()
    for seed in range(cities + 1):
        loads, binding = _city(regions, seed)
        began = time.process_time()
        wanted = chosen.propose(loads, binding, TOPOLOGY)
        took_ms.append(1000 * (time.process_time() - began))
        moves.append(sum(1 for _ in binding.diff(wanted)))
        for peaks, one in ((before, binding), (after, wanted)):
            peaks.append(peak(summed(loads.work_s(10.0), loads.placed(one, TOPOLOGY), TOPOLOGY.workers)))
        instances = len(loads.instances)
    return TrialOutcome(
        {
            "instances": instances,
            "proposal_ms": median(took_ms[1:]),
            "proposal_ms.max": max(took_ms[1:]),
            "moves": median(moves[1:]),
            "peak_before": median(before[1:]),
            "peak_after": median(after[1:]),
        }
    )


def _city(regions: int, seed: int) -> tuple[Loads, Binding]:
    """Loads of three queries in every region, all their operators bound, and the binding by partition."""
    draw = np.random.default_rng(seed)
    layout = Layout.of(Graph.of(queries(regions)), OPERATOR_KINDS)
    number = len(layout.instances)
    events = (2000 * draw.lognormal(0.0, 0.8, int(layout.partition.max()) + 1))[layout.partition]
    cost_s = 2e-6 * draw.uniform(0.5, 2.0, number)
    loads = Loads(
        layout.instances,
        cost_s=cost_s,
        backlog=events / 10,
        rate_per_s=events,
        busy_s=cost_s * events,
        state_bytes=draw.uniform(1e3, 1e6, number),
        partition=layout.partition,
        edge_source=layout.edge_source,
        edge_target=layout.edge_target,
        edge_bytes=events[layout.edge_source] * ROW_BYTES / layout.edge_share,
        latency_s={"avg_speed": 0.2},
    )
    placed = layout.partition % TOPOLOGY.workers
    return loads, Binding.of(dict(zip(layout.instances, placed.tolist(), strict=True)), TOPOLOGY.workers)
