"""Rehearsals run every kernel once, whatever its columns are."""

import pytest

from shoal.compiler.program import compile_graph
from shoal.compiler.warm_up import warm_up
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, max_, mean, min_, sum_, top_k
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph
from shoal.model.query.window import hop, tumbling
from shoal.model.spatial.grid import Grid, Units
from shoal.model.spatial.shape import polygon

CARS = Stream("cars", {"ts": "timestamp", "i": "int64", "x": "float64", "s": "string", "b": "bool"}, time="ts")


def _in_polygons(units: Units) -> Flow:
    zones = Stream("zones", {"ts": "timestamp", "area": "string"}, time="ts")
    grid = Grid((0.0, 0.0, 1.0, 1.0), columns=4, rows=4, units=units)
    return CARS.match_ranges(zones, polygon("area"), grid=grid, at=("x", "x"))


@pytest.mark.parametrize(
    ("flows", "kernels"),
    [
        pytest.param([CARS], 0, id="no kernel"),
        pytest.param([CARS.window(tumbling(1)).aggregate(n=count())], 1, id="no columns"),
        pytest.param(
            [
                CARS.key_by("i", "s", "b", "ts").window(hop(30, 1)).aggregate(low=min_("x"), last=max_("ts")),
                CARS.partition_by("s", groups=3).window(hop(2, 1)).aggregate(avg=mean("i"), top=top_k("x", 3)),
                CARS.filter(col("i") == 1).window(tumbling(5)).aggregate(total=sum_("x"), whole=sum_("i")),
            ],
            3,
            id="every type of column",
        ),
        pytest.param([_in_polygons("plane"), _in_polygons("degrees")], 2, id="texts that must be polygons"),
    ],
)
def test_every_kernel_of_a_program_is_run_once(flows: list[Flow], kernels: int) -> None:
    graph = Graph.of(flow.sink(f"q{number}") for number, flow in enumerate(flows))
    assert warm_up(compile_graph(graph)) == kernels
