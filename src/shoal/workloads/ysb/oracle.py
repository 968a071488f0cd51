"""The expected results of the `ysb` query, computed in batch by DuckDB, without any code of the runtimes."""

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from shoal.workloads.oracle_input import relation_of
from shoal.workloads.ysb.events import VIEW

COLUMNS = ("ad_id", "event_type", "event_time")
SCHEMA = pa.schema([("campaign", pa.int64()), ("window_end", pa.timestamp("us")), ("views", pa.int64())])
WINDOW_S = 10
VIEWS = f"""
SELECT campaign, time_bucket(to_seconds({WINDOW_S}), event_time) + to_seconds({WINDOW_S}) AS window_end,
       count(*) AS views
FROM events JOIN ads USING (ad_id) WHERE event_type = {VIEW} GROUP BY ALL
"""


def expected(events: pa.Table | str | Path, campaign_of_ad: Mapping[int, int]) -> dict[str, pa.Table]:
    """Count views per campaign and window over a table or the Parquet files of a glob, rows in key order.

    >>> from shoal.workloads.ysb.events import YsbEvents
    >>> events = YsbEvents(ads=4, campaigns=2, per_s=100)
    >>> expected(pa.table(events.batch(0, 1000)), events.campaign_of_ad())["views"]["views"].to_pylist()
    [168, 169]
    """
    with duckdb.connect() as database:
        relation_of(database, "ysb", events, COLUMNS).create_view("events")
        ads = pa.table({"ad_id": list(campaign_of_ad), "campaign": list(campaign_of_ad.values())})
        database.from_arrow(ads).create_view("ads")
        return {"views": database.sql(f"{VIEWS} ORDER BY ALL").to_arrow_table().cast(SCHEMA)}
