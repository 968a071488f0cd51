"""Rectangles of cells that are cut, joined and moved between threads while a run goes on: no match changes."""

from unittest.mock import ANY

import pytest
from tests.runtimes.local.migration.test_repartition import OPTIONS, assert_whole, change
from tests.runtimes.local.nudged import Nudged
from tests.spatial_case import spatial_case

from shoal.model.control.messages import RunEnded
from shoal.session.digest import differences


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("seed", range(2))
def test_every_match_is_found_once_while_rectangles_are_cut_joined_and_moved(
    options: dict[str, object], seed: int
) -> None:
    case = spatial_case(seed, points=400)
    rows = {"points": case.points, "ranges": case.ranges}
    nudged = Nudged(case.job().graph, rows, 3, change, seed, dict(options)).run()
    assert nudged.events[-1] == RunEnded(None, at_s=ANY)
    assert_whole(nudged)
    assert nudged.reports[-1].snapshot.partitioning.version > 0
    assert differences({"found": nudged.sink.table("found")}, case.expected()) == []
