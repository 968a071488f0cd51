"""Workloads whose windows close by the clock: the same events, in the windows of when they were read."""

import pyarrow.compute as pc
import pytest
from tests.small_city import result_tables

from shoal.errors import ConfigError, GraphError
from shoal.session.run import start
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.workload import Amount, Ready

EVENTS = 20_000
SEGMENT = ("xway", "dir", "seg")
COUNTED = {"ysb": ("views", "views"), "nyt": ("trips", "trips")}


def ready(name: str, clock: str) -> Ready:
    return WORKLOADS[name].ready(0, Amount(EVENTS), {"clock": clock})


@pytest.mark.parametrize("name", COUNTED)
def test_windows_by_the_clock_have_all_the_events_that_windows_of_event_time_have(name: str) -> None:
    table, column = COUNTED[name]
    run = start(ready(name, "processing").job, on="local", workers=2)
    run.wait()
    counted = pc.sum(result_tables(run)[table][column]).as_py()
    assert counted == pc.sum(ready(name, "event").expected(EVENTS)[table][column]).as_py()


def test_linear_road_by_the_clock_prices_segments_that_had_a_report() -> None:
    run = start(ready("linear-road", "processing").job, on="local", workers=2)
    run.wait()
    both = result_tables(run)["tolls"], ready("linear-road", "event").expected(EVENTS)["tolls"]
    found, wanted = ({tuple(row.values()) for row in table.select(SEGMENT).to_pylist()} for table in both)
    assert found
    assert found <= wanted


@pytest.mark.parametrize("name", ["ysb", "nyt", "linear-road"])
def test_no_oracle_knows_windows_by_the_clock(name: str) -> None:
    with pytest.raises(ConfigError, match="windows of event time; got clock=processing"):
        ready(name, "processing").expected(EVENTS)


def test_a_clock_that_is_none_is_rejected() -> None:
    with pytest.raises(GraphError, match="must be event or processing; got 'lunar'"):
        ready("ysb", "lunar")
