"""What a binding policy costs: one proposal for the study's 1,201 instances, and for ten times as many.

    python benchmarks/policies.py --quick

Loads are those of a skewed city: some regions are far busier than others, everything bound by partition to 2 nodes of 4
workers. Processor time of one call, so that other work on the machine does not count; and how far the busiest worker is
above the mean before and after.
"""

import argparse
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from record import add_options, written
from table import plain

from shoal.control.observation import peak
from shoal.experiments.machine import described
from shoal.model.control.binding import Binding
from shoal.model.control.topology import Topology
from shoal.model.query.graph import OPERATOR_KINDS, Graph
from shoal.policies.binding.layout import ROW_BYTES, Layout
from shoal.policies.binding.loads import Loads, summed
from shoal.policies.catalog import DYNAMIC
from shoal.workloads.traffic.queries import queries

REGIONS = (100, 1000)
TOPOLOGY = Topology.of(nodes=2, workers=8)
HEADER = ["policy", "instances", "median ms", "largest ms", "moves", "peak before", "peak after"]


def city(regions: int, seed: int) -> tuple[Loads, Binding]:
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


def measured(name: str, regions: int, repeat: int) -> dict[str, Any]:
    """Several cities, each asked about once after a first call that is not counted."""
    policy = DYNAMIC[name]
    spent_s, moves, before, after = [], [], [], []
    for seed in range(repeat + 1):
        loads, binding = city(regions, seed)
        began = time.process_time()
        wanted = policy.propose(loads, binding, TOPOLOGY)
        spent_s.append(time.process_time() - began)
        moves.append(sum(1 for _ in binding.diff(wanted)))
        for peaks, one in ((before, binding), (after, wanted)):
            peaks.append(peak(summed(loads.work_s(10.0), loads.placed(one, TOPOLOGY), TOPOLOGY.workers)))
    return {
        "policy": name,
        "instances": len(loads.instances),
        "ms": [round(1000 * each, 3) for each in spent_s[1:]],
        "moves": median(moves[1:]),
        "peak_before": median(before[1:]),
        "peak_after": median(after[1:]),
    }


def rows(results: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows."""
    return HEADER, [
        [
            each["policy"],
            f"{each['instances']:,}",
            f"{median(each['ms']):.2f}",
            f"{max(each['ms']):.2f}",
            f"{each['moves']:,.0f}",
            f"{each['peak_before']:.2f}",
            f"{each['peak_after']:.2f}",
        ]
        for each in results
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_options(parser, "100 regions, two cities")
    options = parser.parse_args()
    sizes, repeat = (REGIONS[:1], 2) if options.quick else (REGIONS, 15)
    results = [measured(name, regions, repeat) for regions in sizes for name in DYNAMIC]
    print(plain(*rows(results)))
    print(f"written to {written('policies', {'repeat': repeat, 'results': results}, described(), options)}")


if __name__ == "__main__":
    main()
