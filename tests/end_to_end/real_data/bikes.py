"""Queries over a dirty day of bike trips, in Python and SQL, and what DuckDB makes of the same files."""

from shoal import (
    Flow,
    Stream,
    coalesce,
    col,
    count,
    count_distinct,
    hop,
    is_null,
    is_same,
    lit,
    max_,
    mean,
    min_,
    nullif,
    prev,
    sessions,
    sum_,
    tumbling,
)

TRIPS = Stream(
    "trips",
    {
        "ended_at": "timestamp",
        "bike_id": "int64 not null",
        "start_station": "string not null",
        "end_station": "string",
        "minutes": "float64",
        "birth_year": "int64",
        "member": "string not null",
    },
    time="ended_at",
    lateness_s="93 min",
)
DOCKS = Stream("docks", {"reported_at": "timestamp", "station": "string", "free": "int64"}, time="reported_at")
STREAMS = {"trips": TRIPS, "docks": DOCKS}
REFUSED = {"type": 2, "malformed": 1, "null": 1}

PYTHON: dict[str, Flow] = {
    "young": TRIPS.filter((col("birth_year") > 1995) | is_null("end_station")).select(
        "ended_at", "bike_id", "birth_year", "end_station"
    ),
    "guessed": TRIPS.select(
        "ended_at",
        "bike_id",
        place=coalesce("end_station", lit("(nowhere)")),
        age=2018 - coalesce("birth_year", 1980),
        odd=nullif(col("birth_year") % 2, 0),
        known=~is_null("birth_year") & ~is_null("end_station"),
    ),
    "round_trips": TRIPS.filter(is_same("start_station", "end_station") & (col("minutes") > 30)).select(
        "ended_at", "bike_id", "start_station", "end_station"
    ),
    "hourly": TRIPS.key_by("member")
    .window(tumbling("1 h"))
    .aggregate(
        n=count(),
        known=count("birth_year"),
        year=mean("birth_year"),
        oldest=min_("birth_year"),
        youngest=max_("birth_year"),
        stations=count_distinct("end_station"),
    ),
    "arrivals": TRIPS.key_by("end_station")
    .window(hop("2 h", "1 h"))
    .aggregate(n=count(), minutes=mean("minutes"), total=sum_("minutes"), years=sum_("birth_year"))
    .filter(col("years") > 2000),
    "busy": TRIPS.key_by("end_station", "member")
    .window(sessions("10 min"))
    .aggregate(n=count(), known=count("birth_year"), year=mean("birth_year")),
    "once": TRIPS.key_by("ended_at", "bike_id").deduplicate("1 s"),
    "docked": TRIPS.join(DOCKS, on={"end_station": "station"}, within_s=(0, 600), where=col("free") < 15).select(
        "ended_at", "bike_id", "end_station", "birth_year", "free"
    ),
    "reported": TRIPS.join(DOCKS, on={"end_station": "station"}, within_s=(0, 600), how="left").select(
        "ended_at", "bike_id", "end_station", "reported_at", "free"
    ),
    "largest": TRIPS.key_by("end_station")
    .window(tumbling("3 h"))
    .aggregate(n=count(), year=max_("birth_year"))
    .key_by("window_end")
    .rank([("year", True), ("n", True)], 5, ties=True),
    "oldest": TRIPS.filter(col("member") == "Customer")
    .assign(tumbling("1 h"))
    .key_by("window_end", "end_station")
    .rank([("birth_year", False)], 1)
    .select("window_end", "end_station", "birth_year", "ended_at", "bike_id"),
    "moved": TRIPS.key_by("bike_id").match(
        "B",
        within_s=60,
        measures={"at": "last(B.ended_at)", "start": "last(B.start_station)", "year": "last(B.birth_year)"},
        define={"B": ~(col("start_station") == prev("end_station"))},
    ),
}

HOUR = "TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ended_at), INTERVAL '1' HOUR))"
THREE_HOURS = HOUR.replace("'1'", "'3'")
SQL = {
    "young": "SELECT ended_at, bike_id, birth_year, end_station FROM trips "
    "WHERE birth_year > 1995 OR end_station IS NULL",
    "guessed": "SELECT ended_at, bike_id, COALESCE(end_station, '(nowhere)') AS place, "
    "2018 - COALESCE(birth_year, 1980) AS age, NULLIF(birth_year % 2, 0) AS odd, "
    "birth_year IS NOT NULL AND end_station IS NOT NULL AS known FROM trips",
    "round_trips": "SELECT ended_at, bike_id, start_station, end_station FROM trips "
    "WHERE start_station IS NOT DISTINCT FROM end_station AND minutes > 30",
    "hourly": "SELECT member, window_end, COUNT(*) AS n, COUNT(birth_year) AS known, AVG(birth_year) AS year, "
    "MIN(birth_year) AS oldest, MAX(birth_year) AS youngest, COUNT(DISTINCT end_station) AS stations "
    f"FROM {HOUR} GROUP BY member, window_start, window_end",
    "arrivals": "SELECT end_station, HOP_END(ended_at, INTERVAL '1' HOUR, INTERVAL '2' HOUR) AS window_end, "
    "COUNT(*) AS n, AVG(minutes) AS minutes, SUM(minutes) AS total, SUM(birth_year) AS years FROM trips "
    "GROUP BY end_station, HOP(ended_at, INTERVAL '1' HOUR, INTERVAL '2' HOUR) HAVING SUM(birth_year) > 2000",
    "busy": "SELECT end_station, member, window_start, window_end, COUNT(*) AS n, COUNT(birth_year) AS known, "
    "AVG(birth_year) AS year FROM TABLE(SESSION(TABLE trips PARTITION BY end_station, member, "
    "DESCRIPTOR(ended_at), INTERVAL '10' MINUTE)) GROUP BY end_station, member, window_start, window_end",
    "kinds": f"SELECT DISTINCT end_station, birth_year, window_end FROM {HOUR}",
    "docked": "SELECT t.ended_at, t.bike_id, t.end_station, t.birth_year, d.free FROM trips t JOIN docks d "
    "ON t.end_station = d.station AND d.reported_at BETWEEN t.ended_at AND t.ended_at + INTERVAL '10' MINUTE "
    "AND d.free < 15",
    "reported": "SELECT t.ended_at, t.bike_id, t.end_station, d.reported_at, d.free FROM trips t LEFT JOIN docks d "
    "ON t.end_station = d.station AND d.reported_at BETWEEN t.ended_at AND t.ended_at + INTERVAL '10' MINUTE",
    "largest": "SELECT * FROM (SELECT *, RANK() OVER (PARTITION BY window_end ORDER BY year DESC, n DESC) AS rank "
    "FROM (SELECT end_station, window_end, COUNT(*) AS n, MAX(birth_year) AS year "
    f"FROM {THREE_HOURS} GROUP BY end_station, window_start, window_end)) WHERE rank <= 5",
    "oldest": "SELECT window_end, end_station, birth_year, ended_at, bike_id FROM (SELECT *, ROW_NUMBER() "
    f"OVER (PARTITION BY window_end, end_station ORDER BY birth_year) AS rank FROM {HOUR} "
    "WHERE member = 'Customer') WHERE rank = 1",
    "moved": "SELECT * FROM trips MATCH_RECOGNIZE (PARTITION BY bike_id ORDER BY ended_at "
    "MEASURES LAST(B.ended_at) AS at, LAST(B.start_station) AS start, LAST(B.birth_year) AS year "
    "ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (B) WITHIN INTERVAL '1' MINUTE "
    "DEFINE B AS B.start_station <> PREV(B.end_station))",
}

VIEWS = """
CREATE TABLE trips AS
SELECT ended_at::TIMESTAMPTZ AT TIME ZONE 'UTC' AS ended_at, bike_id::BIGINT AS bike_id, start_station, end_station,
    minutes::DOUBLE AS minutes, birth_year::DOUBLE::BIGINT AS birth_year, member
FROM read_csv('{directory}/trips/*.csv', all_varchar = true, ignore_errors = true)
WHERE bike_id IS NOT NULL
    AND (minutes IS NULL OR TRY_CAST(minutes AS DOUBLE) IS NOT NULL)
    AND (birth_year IS NULL OR TRY_CAST(birth_year AS DOUBLE) IS NOT NULL);
CREATE TABLE docks AS
SELECT reported_at::TIMESTAMPTZ AT TIME ZONE 'UTC' AS reported_at, station, free::BIGINT AS free
FROM read_csv('{directory}/docks/*.csv', all_varchar = true);
CREATE VIEW hours AS
SELECT *, time_bucket(INTERVAL 1 HOUR, ended_at) + INTERVAL 1 HOUR AS window_end FROM trips;
"""
IN_DUCKDB = {
    **{name: SQL[name] for name in ("young", "round_trips", "docked", "reported")},
    "guessed": SQL["guessed"].replace("NULLIF(birth_year % 2, 0)", "NULLIF(birth_year % 2, 0)::BIGINT"),
    "hourly": SQL["hourly"].replace(HOUR, "hours").replace("window_start, ", ""),
    "arrivals": """
        SELECT end_station, window_end, COUNT(*) AS n, AVG(minutes) AS minutes, SUM(minutes) AS total,
            SUM(birth_year)::BIGINT AS years
        FROM (SELECT * FROM hours UNION ALL SELECT * REPLACE (window_end + INTERVAL 1 HOUR AS window_end) FROM hours)
        GROUP BY end_station, window_end HAVING SUM(birth_year) > 2000
    """,
    "busy": """
        SELECT end_station, member, MIN(ended_at) AS window_start, MAX(ended_at) + INTERVAL 10 MINUTE AS window_end,
            COUNT(*) AS n, COUNT(birth_year) AS known, AVG(birth_year) AS year
        FROM (
            SELECT *, SUM(begins) OVER (PARTITION BY end_station, member ORDER BY ended_at) AS session
            FROM (
                SELECT *, COALESCE(ended_at >= INTERVAL 10 MINUTE + LAG(ended_at) OVER (
                    PARTITION BY end_station, member ORDER BY ended_at), true)::INT AS begins
                FROM trips
            )
        ) GROUP BY end_station, member, session
    """,
    "once": "SELECT DISTINCT * FROM trips",
    "kinds": "SELECT DISTINCT end_station, birth_year, window_end FROM hours",
    "largest": """
        SELECT * FROM (
            SELECT *, RANK() OVER (PARTITION BY window_end ORDER BY year DESC NULLS LAST, n DESC) AS rank
            FROM (
                SELECT end_station, time_bucket(INTERVAL 3 HOUR, ended_at) + INTERVAL 3 HOUR AS window_end,
                    COUNT(*) AS n, MAX(birth_year) AS year
                FROM trips GROUP BY ALL
            )
        ) WHERE rank <= 5
    """,
    "oldest": """
        SELECT window_end, end_station, birth_year, ended_at, bike_id FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end, end_station
                ORDER BY birth_year NULLS LAST, ended_at, bike_id) AS rank
            FROM hours WHERE member = 'Customer'
        ) WHERE rank = 1
    """,
    "moved": """
        SELECT bike_id, ended_at AS at, start_station AS start, birth_year AS year FROM (
            SELECT *, LAG(end_station) OVER (PARTITION BY bike_id ORDER BY ended_at) AS before FROM trips
        ) WHERE start_station <> before
    """,
}
