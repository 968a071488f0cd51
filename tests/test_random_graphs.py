"""Any graph, cut into epochs, bound and partitioned again at random, has the results it would have row by row."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.compiler.against_rows import repartitioned
from tests.compiler.in_process import InProcess
from tests.naive import interpret
from tests.random_graphs import cases, spatial_cases

from shoal.model.control.partitioning import DECLARED
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import shuffled

Row = Mapping[str, Any]


def rounded(value: Any) -> Any:
    """A value to nine digits; whole floats as integers, since the interpreter does not know of which type null was."""
    if isinstance(value, float):
        shortened = float(f"{value:.9g}") if math.isfinite(value) else str(value)
        return int(shortened) if isinstance(shortened, float) and shortened.is_integer() else shortened
    return [rounded(each) for each in value] if isinstance(value, list) else value


def canonical(rows: Sequence[Row]) -> list[str]:
    return sorted(repr(sorted((name, rounded(value)) for name, value in row.items())) for row in rows)


def epochs_of(rows: Mapping[str, Sequence[Row]], graph: Graph, draw: random.Random) -> list[dict[str, Any]]:
    """Rows in the order of time, so that none is late, cut into epochs and blocks at random places."""
    ordered = {}
    for stream, several in rows.items():
        time = graph.streams[stream].parameters["time"]
        ordered[stream] = sorted(several, key=lambda row: row[time])
    number = draw.randint(1, 5)
    cuts = {s: sorted(draw.randint(0, len(each)) for _ in range(number - 1)) for s, each in ordered.items()}
    epochs = []
    for n in range(number):
        epoch = {}
        for stream, several in ordered.items():
            bounds = [0, *cuts[stream], len(several)]
            part = several[bounds[n] : bounds[n + 1]]
            half = draw.randint(0, len(part))
            blocks = [block for block in (part[:half], part[half:]) if block]
            for block in blocks:
                draw.shuffle(block)
            epoch[stream] = blocks
        epochs.append(epoch)
    return epochs


def check(graph: Graph, rows: Mapping[str, Sequence[Row]], seed: int) -> None:
    draw = random.Random(seed)
    run = InProcess()
    partitioning = DECLARED
    for epoch in epochs_of(rows, graph, draw):
        partitioning = repartitioned(partitioning, graph, draw)
        run.epoch(graph, shuffled(graph, 3, draw.getrandbits(32), partitioning), epoch, partitioning)
    run.drain(graph, shuffled(graph, 3, draw.getrandbits(32), partitioning))
    wanted = interpret(graph, rows)
    got = {table: canonical(answers) for table, answers in run.results.items() if answers}
    assert got == {table: canonical(answers) for table, answers in wanted.items() if answers}
    assert not any(run.late.values())


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.integers(0, 1 << 30))
def test_any_graph_has_the_answers_it_would_have_row_by_row(
    case: tuple[Graph, Mapping[str, Sequence[Row]]], seed: int
) -> None:
    check(*case, seed)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(spatial_cases(), st.integers(0, 1 << 30))
def test_any_points_are_in_the_ranges_they_would_be_in_row_by_row(
    case: tuple[Graph, Mapping[str, Sequence[Row]]], seed: int
) -> None:
    check(*case, seed)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(spatial_cases(), st.integers(0, 1 << 30))
def test_six_hundred_matches_of_points_and_ranges_are_those_row_by_row(
    case: tuple[Graph, Mapping[str, Sequence[Row]]], seed: int
) -> None:
    check(*case, seed)


@pytest.mark.slow
@pytest.mark.timeout(5400)
@settings(max_examples=1200, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.integers(0, 1 << 30))
def test_twelve_hundred_graphs_have_the_answers_they_would_have_row_by_row(
    case: tuple[Graph, Mapping[str, Sequence[Row]]], seed: int
) -> None:
    check(*case, seed)
