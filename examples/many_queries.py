"""Three hundred alerts, two lanes.

Two hundred machines send their temperature. Every machine has an owner who wants its maximum per minute; half of
the owners also want to know how often it was above 80 degrees. Queries that differ only in the constant of an
equality filter run in one lane, so the cost depends on how many kinds of question there are, not on how
many people ask them.
"""

import numpy as np
import pyarrow as pa

from shoal import Generator, Graph, Job, Query, Stream, col, count, max_, start, tumbling
from shoal.compiler.program import compile_graph

MACHINES = 200
START_US = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z


class Readings:
    """One reading of every machine per second; event number n is always the same event."""

    def batch(self, first: int, stop: int) -> pa.RecordBatch:
        number = np.arange(first, stop)
        machine, second = number % MACHINES, number // MACHINES
        columns = {
            "ts": pa.array(START_US + second * 1_000_000).view(pa.timestamp("us")),
            "machine": machine,
            "celsius": 60 + 30 * np.sin(second / 60 + machine),
        }
        return pa.RecordBatch.from_pydict(columns)


def queries() -> list[Query]:
    """What everybody has asked for."""
    readings = Stream("readings", {"ts": "timestamp", "machine": "int64", "celsius": "float64"}, time="ts")
    asked = []
    for machine in range(MACHINES):
        own = readings.filter(col("machine") == machine)
        highest = own.key_by("machine").window(tumbling(60)).aggregate(celsius=max_("celsius"))
        asked.append(highest.sink(f"highest[{machine}]", table="highest"))
        if machine % 2 == 0:
            hot = own.filter(col("celsius") > 80).key_by("machine").window(tumbling(60)).aggregate(times=count())
            asked.append(hot.sink(f"hot[{machine}]", table="hot"))
    return asked


graph = Graph.of(queries())
print(f"{len(graph.queries)} queries, {len(graph.operators)} operators, {len(compile_graph(graph).lanes)} lanes")

source = Generator(Readings(), events=MACHINES * 300, rows_per_epoch=MACHINES * 60)
run = start(Job("alerts", graph, {"readings": source}))
tally = run.wait()
print(f"{tally.events} events read once, {tally.results} results in {tally.epochs} epochs")
for table in ("highest", "hot"):
    print(
        run.sink.table(table).sort_by([("window_end", "ascending"), ("machine", "ascending")]).slice(0, 3).to_pylist()
    )
