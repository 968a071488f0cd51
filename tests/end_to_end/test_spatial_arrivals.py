"""Arrivals: every runtime counts the points and ranges that come to its tiles."""

from typing import Any

import pytest
from tests.end_to_end.test_spatial import RUNTIMES
from tests.spatial_case import FOREVER, lives, spatial_case

from shoal.compiler.spatial.lane_arrivals import merged_arrivals
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.snapshot import Arrivals
from shoal.model.spatial.arrivals import BEGUN, ENDED, POINTS
from shoal.session.run import Run, start


@pytest.mark.parametrize(("on", "options"), RUNTIMES)
@pytest.mark.parametrize("partitions", [1, 5])
def test_points_and_ranges_are_counted_once_in_each_tile(on: str, options: dict[str, Any], partitions: int) -> None:
    case, seen = spatial_case(seed=partitions), list[Arrivals]()

    def note(_: Run, event: EpochCommitted) -> None:
        seen.append(event.snapshot.arrivals)

    run = start(case.job(partitions=partitions), on=on, workers=3, policy="round-robin", **options)
    run.wait(note)
    (came,) = merged_arrivals(seen).values()
    assert len(came) == partitions
    assert sum(each.rows[POINTS].sum() for each in came) == len(case.points)
    assert all(
        (each.rows[[POINTS, BEGUN, ENDED]].sum(1) == each.columns[[POINTS, BEGUN, ENDED]].sum(1)).all() for each in came
    )
    if partitions == 1:
        versions = lives(case.ranges)
        assert came[0].rows[BEGUN].sum() == len(versions)
        assert came[0].rows[ENDED].sum() == sum(until < FOREVER for _, _, until in versions)
