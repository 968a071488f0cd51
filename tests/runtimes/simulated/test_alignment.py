"""Sources without a rate: how far one is ahead of another in event time."""

import pytest
from tests.small_city import result_tables

from shoal.model.control.messages import EpochCommitted
from shoal.session.digest import differences
from shoal.session.run import Run, start
from shoal.workloads.catalog import workload
from shoal.workloads.geo_pubsub.feed import CHANGES, POINTS
from shoal.workloads.workload import Amount

SETTINGS = {"queries": "matches", "subscriptions": "500", "churn": "500", "hot_subscriptions": "0", "per_s": "5000"}
CONF = {"source": "outside", "epoch_s": "0.01", "step_s": "0.001", "block_rows": "100", "buffer_rows": "300"}


def apart_s(alignment: str) -> float:
    """The most seconds of event time between points and changes, in a run whose matches are right."""
    ready, apart_us = workload("geo-pubsub").ready(0, Amount(20_000, None, 100), SETTINGS), [0]

    def compare(_: Run, epoch: EpochCommitted) -> None:
        marks = epoch.snapshot.watermarks_us
        if POINTS in marks and CHANGES in marks and marks[POINTS] < 1 << 61:  # the end of the input is further
            apart_us.append(abs(marks[POINTS] - marks[CHANGES]))

    conf = {**CONF, "work_factor": "100", "alignment": alignment}
    run = start(ready.job, on="simulated", topology="cores:4", policy="uniform-grid", conf=conf)
    run.wait(compare)
    assert differences(result_tables(run), ready.expected(run.consumed)) == []
    return max(apart_us) / 1e6


@pytest.mark.parametrize(("alignment", "least_s", "most_s"), [("none", 0.5, 5.0), ("event-time", 0.0, 0.05)])
def test_sources_that_are_aligned_stay_together_in_event_time(alignment: str, least_s: float, most_s: float) -> None:
    assert least_s <= apart_s(alignment) <= most_s
