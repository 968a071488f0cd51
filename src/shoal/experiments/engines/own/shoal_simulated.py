"""Shoal's simulated runtime as an engine: real rows and results, in the time of a machine that is described."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.errors import ConfigError, RunError
from shoal.experiments.engines.collected import Answer, BatchEngine
from shoal.experiments.engines.contract import EngineJob
from shoal.experiments.engines.own.shoal_live import refused_input
from shoal.experiments.engines.own.shoal_queries import shoal_graph
from shoal.language.python.flow import QUERY
from shoal.model.control.messages import EpochCommitted
from shoal.session.job import Job
from shoal.session.run import Run, start


@dataclass(frozen=True)
class TableEvents:
    """The rows of a table, by their numbers."""

    table: pa.Table

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Rows number start .. stop - 1."""
        part = self.table.slice(start, stop - start).combine_chunks()
        return part.to_batches()[0] if part.num_rows else pa.RecordBatch.from_pylist([], part.schema)


class SimulatedEngine(BatchEngine):
    """Simulates when all rows are there: the time of a simulation does not go by while a caller thinks."""

    name = "shoal-simulated"
    languages = ("shoal-simulated", "shoal", "sql")
    runs_graphs = True

    def check(self, job: EngineJob, empty: Mapping[str, pa.Table]) -> None:  # noqa: ARG002  (the protocol's)
        """Compile the queries."""
        if not job.queries:
            raise ConfigError(f"{self.name} needs at least one query; deploy one before it starts")
        if job.settings.get("mode") == "statistical":
            raise ConfigError(f"{self.name} with mode=statistical counts results and gives none; use mode=real")
        shoal_graph(self.name, job)

    def answers(self, job: EngineJob, tables: Mapping[str, pa.Table], stop: threading.Event) -> Iterable[Answer]:
        """Run to the end of all streams, in simulated time."""
        graph, sink = shoal_graph(self.name, job), MemorySink()
        sources = {name: Generator(TableEvents(tables[name]), tables[name].num_rows) for name in graph.streams}

        def watch(run: Run, _: EpochCommitted) -> None:
            if stop.is_set():
                run.stop()

        run = start(
            Job(self.name, graph, sources), on="simulated", workers=job.workers, sink=sink, conf=dict(job.settings)
        )
        run.wait(watch)
        if refused := refused_input(run):
            raise RunError(f"{self.name} {refused}")
        for table in {query.table for query in graph.queries.values()}:
            found = sink.table(table)
            yield table, found.drop_columns([QUERY]) if QUERY in found.column_names else found


SIMULATED = SimulatedEngine()
