"""The one-stream queries in the SQL of the peers: their input columns, and the query for each engine."""

from collections.abc import Mapping
from dataclasses import dataclass

from shoal.errors import ConfigError
from shoal.workloads.nyt import oracle as nyt_oracle
from shoal.workloads.skew import oracle as skew_oracle
from shoal.workloads.skew.queries import SKEW, Roads
from shoal.workloads.ysb import oracle as ysb_oracle
from shoal.workloads.ysb.events import VIEW


@dataclass(frozen=True)
class PeerQuery:
    """A query over `events` with the window as each engine writes it; `time` is the event time column."""

    table: str
    time: str
    columns: tuple[tuple[str, str], ...]
    """Names and kinds: time, long, double or text."""
    spark: str
    flink: str = ""


_YSB_COLUMNS = (
    *((name, "long") for name in ("user_id", "page_id", "ad_id", "ad_type", "event_type")),
    ("event_time", "time"),
    ("ip", "long"),
    ("spare", "long"),
)
_NYT_COLUMNS = (
    ("ts", "time"),
    ("vendor", "text"),
    *((name, "double") for name in nyt_oracle.COLUMNS[2:]),
    ("fare", "double"),
    ("passengers", "long"),
)
_GRID = nyt_oracle.GRID
_CELLS = f"""
SELECT ts, distance,
       floor(({nyt_oracle.NORTH!r} - pickup_latitude) / {nyt_oracle.DLAT!r}) AS p_row,
       floor((pickup_longitude - {nyt_oracle.WEST!r}) / {nyt_oracle.DLON!r}) AS p_column,
       floor(({nyt_oracle.NORTH!r} - dropoff_latitude) / {nyt_oracle.DLAT!r}) AS d_row,
       floor((dropoff_longitude - {nyt_oracle.WEST!r}) / {nyt_oracle.DLON!r}) AS d_column
FROM events WHERE vendor = '{nyt_oracle.VENDOR}' AND distance > {nyt_oracle.MIN_DISTANCE}
"""
_VALID = " AND ".join(f"{name} >= 0 AND {name} < {_GRID}" for name in ("p_row", "p_column", "d_row", "d_column"))
_PLACED = f"SELECT ts, distance, CAST(p_row * {_GRID} + p_column AS BIGINT) AS cell FROM ({_CELLS}) WHERE {_VALID}"

QUERIES = {
    "ysb": PeerQuery(
        "views",
        "event_time",
        _YSB_COLUMNS,
        spark=f"""
SELECT campaign, window.end AS window_end, count(*) AS views
FROM events JOIN ads USING (ad_id) WHERE event_type = {VIEW}
GROUP BY campaign, window(event_time, '{ysb_oracle.WINDOW_S} seconds')
""",
        flink=f"""
SELECT campaign, window_end, count(*) AS `views`
FROM TABLE(TUMBLE(TABLE placed, DESCRIPTOR(event_time), INTERVAL '{ysb_oracle.WINDOW_S}' SECOND))
GROUP BY campaign, window_start, window_end
""",
    ),
    "nyt": PeerQuery(
        "trips",
        "ts",
        _NYT_COLUMNS,
        spark=f"""
SELECT cell, window.end AS window_end, count(*) AS trips, avg(distance) AS mean_distance
FROM ({_PLACED}) GROUP BY cell, window(ts, '{nyt_oracle.WINDOW_S} seconds')
""",
        flink=f"""
SELECT cell, window_end, count(*) AS trips, avg(distance) AS mean_distance
FROM TABLE(TUMBLE(TABLE placed, DESCRIPTOR(ts), INTERVAL '{nyt_oracle.WINDOW_S}' SECOND))
GROUP BY cell, window_start, window_end
""",
    ),
}
FLINK_PLACED = {
    "ysb": f"SELECT event_time, MOD(ad_id, {{campaigns}}) AS campaign FROM events WHERE event_type = {VIEW}",
    "nyt": _PLACED,
}
"""The input of Flink's windows; a formula replaces the static table, which Flink cannot join in a view of events."""


PEER_WORKLOADS = {"spark-sql": (*QUERIES, SKEW.name), "flink": tuple(QUERIES)}


def peer_query(workload: str, engine: str, settings: Mapping[str, str]) -> PeerQuery:
    """The query of a workload that a peer can run; `settings` are those of the workload.

    >>> peer_query("skew", "flink", {})
    Traceback (most recent call last):
    shoal.errors.ConfigError: flink runs ysb and nyt; there is no skew in its SQL here
    """
    known = PEER_WORKLOADS[engine]
    if workload not in known:
        listed = " and ".join((", ".join(known[:-1]), known[-1]))
        raise ConfigError(f"{engine} runs {listed}; there is no {workload} in its SQL here")
    return _encounters(settings) if workload == SKEW.name else QUERIES[workload]


def _encounters(settings: Mapping[str, str]) -> PeerQuery:
    """The join of `skew`: both sides with the watermark of `events`, bounded in time, so that Spark can drop state.

    Spark compares a row with all it keeps of the same keys, so the road is cut into strips, as is common: partners
    lie in the same or a neighbouring strip. Without strips it takes several times as long.
    """
    values = {**SKEW.settings, **settings}
    if values["queries"] != "join":
        raise ConfigError(f"of skew, spark-sql runs the join alone; set queries=join; got {values['queries']!r}")
    roads = Roads(reach_m=float(values["reach_m"]), within_s=float(values["within_s"]))
    reach, strip = roads.reach_dm, max(1, roads.reach_dm)
    along, across = "(after.x - before.x)", "(after.y - before.y)"
    return PeerQuery(
        "encounters",
        "ts",
        (("ts", "time"), *((name, "long") for name in skew_oracle.COLUMNS[1:])),
        spark=f"""
SELECT cell, window.end AS window_end, count(*) AS encounters, min(apart) AS closest
FROM (
    SELECT before.cell, after.ts, {along} * {along} + {across} * {across} AS apart
    FROM (SELECT *, x DIV {strip} AS strip FROM events) AS before
    JOIN (SELECT *, explode(array(x DIV {strip} - 1, x DIV {strip}, x DIV {strip} + 1)) AS strip FROM events) AS after
    ON before.cell = after.cell AND before.strip = after.strip
    AND after.ts >= before.ts AND after.ts <= before.ts + INTERVAL '{roads.within_s:.6f}' SECOND
    AND {along} BETWEEN -{reach} AND {reach} AND {along} * {along} + {across} * {across} <= {reach * reach}
    AND before.vehicle <> after.vehicle
) GROUP BY cell, window(ts, '{skew_oracle.WINDOW_S} seconds')
""",
    )
