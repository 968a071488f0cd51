"""Graphs that run in this process under changing bindings, against each of their queries row by row."""

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

from tests.compiler.in_process import InProcess, Row
from tests.compiler.row_by_row import RowByRow

from shoal.compiler.program import Program, compile_graph
from shoal.language.python.stream import Stream
from shoal.model.control.partitioning import DECLARED, Partitioning
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import shuffled
from shoal.session.partitions import changed, random_changes

SCHEMA = {"ts": "timestamp", "a": "int64", "b": "int64", "x": "float64", "s": "string", "flag": "bool"}
TEXTS = ("", "car", "truck")
Epoch = list[list[dict[str, Any]]]


def cars(lateness_us: int = 0) -> Stream:
    return Stream("cars", SCHEMA, time="ts", lateness_s=lateness_us / 1e6)


CARS = cars()


def canonical(rows: Sequence[Row]) -> list[str]:
    return sorted(repr(tuple(row.items())) for row in rows)


def by_table(several: Sequence[RowByRow]) -> dict[str, list[str]]:
    found: dict[str, list[Row]] = {}
    for one in several:
        found.setdefault(one.query.table, []).extend(one.results)
    return {table: canonical(rows) for table, rows in found.items() if rows}


def watermarks(epochs: Sequence[Epoch], lateness_us: int) -> Iterator[float]:
    """The watermark before each epoch."""
    mark = -math.inf
    for epoch in epochs:
        yield mark
        mark = max([mark, *(row["ts"] - lateness_us for rows in epoch for row in rows)])


def row_by_row(graph: Graph, epochs: Sequence[Epoch]) -> list[RowByRow]:
    several = [RowByRow(query) for query in graph.queries.values()]
    for one in several:
        lateness_us = one.query.sources[0].parameters["lateness_us"]
        for epoch, watermark in zip(epochs, watermarks(epochs, lateness_us), strict=True):
            one.process((row for rows in epoch for row in rows), watermark)
        one.drain()
    return several


def in_process(graphs: Sequence[Graph], epochs: Sequence[Epoch], seed: int, workers: int = 3) -> InProcess:
    """A run under a binding and a partitioning that are others in each epoch."""
    run = InProcess()
    draw = random.Random(seed)
    partitioning = DECLARED
    for graph, epoch in zip(graphs, epochs, strict=True):
        partitioning = repartitioned(partitioning.fitted(graph), graph, draw)
        run.epoch(graph, shuffled(graph, workers, draw.getrandbits(32), partitioning), {"cars": epoch}, partitioning)
    run.drain(graphs[-1], shuffled(graphs[-1], workers, draw.getrandbits(32), partitioning))
    return run


def repartitioned(partitioning: Partitioning, graph: Graph, draw: random.Random) -> Partitioning:
    """A partitioning after random changes."""
    return changed(partitioning, random_changes(graph, partitioning, draw), graph)


def check(graph: Graph, epochs: Sequence[Epoch], seed: int = 0) -> Program:
    run = in_process([graph] * len(epochs), epochs, seed)
    wanted = by_table(row_by_row(graph, epochs))
    assert {table: canonical(rows) for table, rows in run.results.items() if rows} == wanted
    return compile_graph(graph)
