"""The Yahoo! Streaming Benchmark: its events, its oracle and its job."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.connectors.sources.generator import Generator
from shoal.errors import ConfigError, SourceError
from shoal.workloads.workload import Amount
from shoal.workloads.ysb.events import VIEW, YsbEvents
from shoal.workloads.ysb.oracle import expected
from shoal.workloads.ysb.queries import STREAM, YSB

untimed = settings(deadline=None)  # the first example may compile
streams = st.builds(
    YsbEvents,
    ads=st.integers(1, 50),
    campaigns=st.integers(1, 10),
    per_s=st.integers(1, 200),
    seed=st.integers(0, 2**63 - 1),
)


@untimed
@given(streams, st.lists(st.integers(0, 3000), min_size=3, max_size=3).map(sorted))
def test_an_event_is_the_same_however_the_stream_is_cut(events: YsbEvents, cuts: list[int]) -> None:
    start, middle, stop = cuts
    parts = pa.Table.from_batches([events.batch(start, middle), events.batch(middle, stop)])
    assert parts.combine_chunks() == pa.Table.from_batches([events.batch(start, stop)])


def test_a_third_of_the_events_are_views_and_every_ad_is_shown() -> None:
    batch = YsbEvents().batch(0, 300_000)
    views = np.mean(batch["event_type"].to_numpy() == VIEW)
    assert views == pytest.approx(1 / 3, abs=0.01)
    assert np.unique(batch["ad_id"].to_numpy()).size == 1000


def test_event_time_never_goes_back_and_keeps_the_rate() -> None:
    times = YsbEvents(per_s=300, start_us=0).batch(0, 901)["event_time"].cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()
    assert times[[0, 299, 300, 900]].tolist() == [0, 996_666, 1_000_000, 3_000_000]


@untimed
@given(streams)
def test_the_oracle_counts_what_plain_python_counts(events: YsbEvents) -> None:
    rows = pa.table(events.batch(0, 2000))
    campaign, wanted = events.campaign_of_ad(), Counter[tuple[int, int]]()
    times = rows["event_time"].cast(pa.int64()).to_pylist()
    for kind, ad, time in zip(rows["event_type"].to_pylist(), rows["ad_id"].to_pylist(), times, strict=True):
        if kind == VIEW:
            wanted[campaign[ad], (time // 10_000_000 + 1) * 10_000_000] += 1
    got = expected(rows, campaign)["views"]
    ends = got["window_end"].cast(pa.int64()).to_pylist()
    assert dict(zip(zip(got["campaign"].to_pylist(), ends, strict=True), got["views"].to_pylist(), strict=True)) == (
        wanted
    )


def test_the_oracle_reads_files_and_refuses_what_is_none(tmp_path: Path) -> None:
    events = YsbEvents(per_s=100)
    rows = pa.table(events.batch(0, 1000))
    pq.write_table(rows, tmp_path / "a.parquet")
    campaigns = events.campaign_of_ad()
    assert expected(f"{tmp_path}/*.parquet", campaigns) == expected(rows, campaigns)
    with pytest.raises(SourceError, match="cannot read"):
        expected(tmp_path / "missing.parquet", campaigns)


def test_an_ad_that_the_table_does_not_have_is_not_counted() -> None:
    events = YsbEvents(ads=10, campaigns=2, per_s=100)
    rows = pa.table(events.batch(0, 1000))
    known = {ad: campaign for ad, campaign in events.campaign_of_ad().items() if ad < 5}
    everything, some = (
        expected(rows, table)["views"]["views"].to_pylist() for table in (events.campaign_of_ad(), known)
    )
    assert 0 < sum(some) < sum(everything)


def test_the_workload_is_one_query_over_one_generated_stream() -> None:
    ready = YSB.ready(3, Amount(events=1000), {"ads": "20", "campaigns": "4", "per_s": "50"})
    assert list(ready.job.graph.queries) == ["views"]
    assert ready.job.sources[STREAM] == Generator(YsbEvents(20, 4, 50, 3), 1000)
    assert sum(ready.expected(1000)["views"]["views"].to_pylist()) == pytest.approx(333, abs=50)


@pytest.mark.parametrize("wrong", [{"ads": 0}, {"per_s": 0}, {"seed": -1}, {"campaigns": 1.5}])
def test_settings_beyond_their_limits_are_rejected(wrong: dict[str, Any]) -> None:
    name = next(iter(wrong))
    with pytest.raises(ConfigError, match=f"ysb {name} must be a whole number from"):
        YsbEvents(**wrong)
