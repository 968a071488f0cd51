"""Queries over recorded GPS points, in Python and SQL, and what DuckDB makes of the same files.

The points are those of two people, as they were published: one person after the other, so that the second one's begin
52 days before the first one's end; times of UTC, although the people are in Beijing; pauses of weeks; jumps; ids with
leading zeros. No value is missing. A cell of about a kilometre makes nulls: it is null outside of a part of the city.
"""

from shoal import (
    Flow,
    Stream,
    call,
    coalesce,
    col,
    count,
    count_distinct,
    floor,
    hop,
    if_,
    is_null,
    is_same,
    lit,
    max_,
    mean,
    min_,
    null,
    prev,
    sessions,
    tumbling,
)

POINTS = Stream(
    "points",
    {"lat": "float64 not null", "lng": "float64 not null", "datetime": "timestamp", "uid": "string not null"},
    time="datetime",
    lateness_s="53 days",
)
STREAMS = {"points": POINTS}

INSIDE = (col("lat") >= 39.97) & (col("lat") < 40.02) & (col("lng") >= 116.29) & (col("lng") < 116.34)
PLACED = POINTS.with_columns(
    cell=if_(INSIDE, floor(col("lat") * 100) * 100_000 + floor(col("lng") * 100), null("int64"))
)
FIRST, SECOND = (PLACED.filter(col("uid") == uid) for uid in ("001", "005"))
OTHERS = SECOND.select("datetime", "cell", other_lat=col("lat"))

PYTHON: dict[str, Flow] = {
    "far": POINTS.filter((col("lat") < 39.9) | (col("lng") > 116.4)).select("datetime", "uid", "lat", "lng"),
    "cells": PLACED.select(
        "datetime",
        "uid",
        "cell",
        outside=is_null("cell"),
        place=coalesce(call("as_string", "cell"), lit("elsewhere")),
    ),
    "hourly": PLACED.key_by("uid")
    .window(tumbling("1 h"))
    .aggregate(
        n=count(), inside=count("cell"), lat=mean("lat"), south=min_("lat"), north=max_("lat"), last=max_("cell")
    ),
    "sliding": PLACED.key_by("cell").window(hop("1 h", "15 min")).aggregate(n=count(), people=count_distinct("uid")),
    "stays": PLACED.key_by("uid", "cell").window(sessions("30 min")).aggregate(n=count(), lng=mean("lng")),
    "local_days": POINTS.with_columns(local=call("as_timestamp", call("as_int64", "datetime") + 8 * 3_600_000_000))
    .retime("local")
    .key_by("uid")
    .window(tumbling("1 day"))
    .aggregate(n=count(), people=count_distinct("uid")),
    "first_visits": PLACED.key_by("uid", "cell").deduplicate("300 days"),
    "together": FIRST.join(OTHERS, on="cell", within_s=(-1800, 1800), where=col("lat") > col("other_lat")).select(
        "datetime", "cell", "lat", "other_lat"
    ),
    "company": FIRST.join(OTHERS, on="cell", within_s=(-2, 2), how="left").select("datetime", "lat", "other_lat"),
    "northmost": PLACED.assign(tumbling("1 h"))
    .key_by("window_end", "cell")
    .rank([("lat", True)], 2)
    .select("window_end", "cell", "lat", "datetime", "uid", "rank"),
    "crossings": PLACED.key_by("uid").match(
        "B",
        within_s=60,
        measures={"at": "last(B.datetime)", "cell": "last(B.cell)"},
        define={"B": ~is_same("cell", prev("cell"))},
    ),
    "jumps": POINTS.key_by("uid").match(
        "B",
        within_s=60,
        measures={"at": "last(B.datetime)", "lat": "last(B.lat)"},
        define={"B": (col("lat") - prev("lat") > 0.002) | (col("lng") - prev("lng") > 0.002)},
    ),
}

CELL = (
    "CASE WHEN lat >= 39.97 AND lat < 40.02 AND lng >= 116.29 AND lng < 116.34 "
    "THEN FLOOR(lat * 100) * 100000 + FLOOR(lng * 100) END"
)
PRELUDE = f"CREATE VIEW placed AS SELECT *, {CELL} AS cell FROM points;"
HOUR = "TABLE(TUMBLE(TABLE placed, DESCRIPTOR(datetime), INTERVAL '1' HOUR))"
SLIDING = "HOP(datetime, INTERVAL '15' MINUTE, INTERVAL '1' HOUR)"
SQL = {
    "far": "SELECT datetime, uid, lat, lng FROM points WHERE lat < 39.9 OR lng > 116.4",
    "cells": "SELECT datetime, uid, cell, cell IS NULL AS outside, "
    "COALESCE(CAST(cell AS STRING), 'elsewhere') AS place FROM placed",
    "hourly": "SELECT uid, window_end, COUNT(*) AS n, COUNT(cell) AS inside, AVG(lat) AS lat, MIN(lat) AS south, "
    f"MAX(lat) AS north, MAX(cell) AS last FROM {HOUR} GROUP BY uid, window_start, window_end",
    "sliding": f"SELECT cell, {SLIDING.replace('HOP', 'HOP_END')} AS window_end, COUNT(*) AS n, "
    f"COUNT(DISTINCT uid) AS people FROM placed GROUP BY cell, {SLIDING}",
    "stays": "SELECT uid, cell, SESSION_START(datetime, INTERVAL '30' MINUTE) AS window_start, "
    "SESSION_END(datetime, INTERVAL '30' MINUTE) AS window_end, COUNT(*) AS n, AVG(lng) AS lng "
    "FROM placed GROUP BY uid, cell, SESSION(datetime, INTERVAL '30' MINUTE)",
    "visited": f"SELECT DISTINCT uid, cell, window_end FROM {HOUR}",
    "together": "SELECT a.datetime, a.cell, a.lat, b.lat AS other_lat "
    "FROM (SELECT * FROM placed WHERE uid = '001') AS a JOIN (SELECT * FROM placed WHERE uid = '005') AS b "
    "ON a.cell = b.cell AND a.lat > b.lat "
    "AND b.datetime BETWEEN a.datetime - INTERVAL '30' MINUTE AND a.datetime + INTERVAL '30' MINUTE",
    "company": "SELECT a.datetime, a.lat, b.lat AS other_lat "
    "FROM (SELECT * FROM placed WHERE uid = '001') AS a LEFT JOIN (SELECT * FROM placed WHERE uid = '005') AS b "
    "ON a.cell = b.cell AND b.datetime BETWEEN a.datetime - INTERVAL '2' SECOND AND a.datetime + INTERVAL '2' SECOND",
    "northmost": "SELECT window_end, cell, lat, datetime, uid, rank FROM (SELECT *, ROW_NUMBER() OVER "
    f"(PARTITION BY window_end, cell ORDER BY lat DESC) AS rank FROM {HOUR}) WHERE rank <= 2",
    "crossings": "SELECT * FROM placed MATCH_RECOGNIZE (PARTITION BY uid ORDER BY datetime "
    "MEASURES LAST(B.datetime) AS at, LAST(B.cell) AS cell ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW "
    "PATTERN (B) WITHIN INTERVAL '1' MINUTE DEFINE B AS B.cell IS DISTINCT FROM PREV(B.cell))",
    "jumps": "SELECT * FROM points MATCH_RECOGNIZE (PARTITION BY uid ORDER BY datetime "
    "MEASURES LAST(B.datetime) AS at, LAST(B.lat) AS lat ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW "
    "PATTERN (B) WITHIN INTERVAL '1' MINUTE "
    "DEFINE B AS B.lat - PREV(B.lat) > 0.002 OR B.lng - PREV(B.lng) > 0.002)",
}

VIEWS = f"""
CREATE TABLE points AS
SELECT * FROM read_csv('{{directory}}/points/*.csv', types = {{{{'uid': 'VARCHAR', 'datetime': 'TIMESTAMP'}}}});
CREATE VIEW placed AS SELECT *, ({CELL})::BIGINT AS cell FROM points;
CREATE VIEW hours AS
SELECT *, time_bucket(INTERVAL 1 HOUR, datetime) + INTERVAL 1 HOUR AS window_end FROM placed;
CREATE VIEW steps AS
SELECT *, LAG(cell) OVER w AS before, LAG(lat) OVER w AS lat_before, LAG(lng) OVER w AS lng_before,
    LAG(datetime) OVER w AS previous
FROM placed WINDOW w AS (PARTITION BY uid ORDER BY datetime);
"""
IN_DUCKDB = {
    "far": SQL["far"],
    "cells": SQL["cells"],
    "together": SQL["together"],
    "company": SQL["company"],
    "hourly": SQL["hourly"].replace(HOUR, "hours").replace("window_start, ", ""),
    "sliding": """
        SELECT cell, time_bucket(INTERVAL 15 MINUTE, datetime) + to_minutes(15 * n) AS window_end, COUNT(*) AS n,
            COUNT(DISTINCT uid) AS people
        FROM placed, range(1, 5) AS ends(n) GROUP BY ALL
    """,
    "stays": """
        SELECT uid, cell, MIN(datetime) AS window_start, MAX(datetime) + INTERVAL 30 MINUTE AS window_end,
            COUNT(*) AS n, AVG(lng) AS lng
        FROM (
            SELECT *, SUM(begins) OVER (PARTITION BY uid, cell ORDER BY datetime) AS session
            FROM (
                SELECT *, COALESCE(datetime >= INTERVAL 30 MINUTE + LAG(datetime) OVER (
                    PARTITION BY uid, cell ORDER BY datetime), true)::INT AS begins
                FROM placed
            )
        ) GROUP BY uid, cell, session
    """,
    "local_days": """
        SELECT uid, time_bucket(INTERVAL 1 DAY, datetime + INTERVAL 8 HOUR) + INTERVAL 1 DAY AS window_end,
            COUNT(*) AS n, COUNT(DISTINCT uid) AS people
        FROM points GROUP BY ALL
    """,
    "first_visits": """
        SELECT lat, lng, datetime, uid, cell FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY uid, cell ORDER BY datetime) AS visit FROM placed
        ) WHERE visit = 1
    """,
    "visited": "SELECT DISTINCT uid, cell, window_end FROM hours",
    "northmost": """
        SELECT window_end, cell, lat, datetime, uid, rank FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end, cell ORDER BY lat DESC, lng, datetime, uid) AS rank
            FROM hours
        ) WHERE rank <= 2
    """,
    "crossings": """
        SELECT uid, datetime AS at, cell FROM steps WHERE previous IS NOT NULL AND cell IS DISTINCT FROM before
    """,
    "jumps": """
        SELECT uid, datetime AS at, lat FROM steps WHERE lat - lat_before > 0.002 OR lng - lng_before > 0.002
    """,
}
