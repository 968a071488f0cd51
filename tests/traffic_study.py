"""The three queries of the traffic study: as they were printed in SQL, and the same in Python."""

from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, mean
from shoal.model.query.functions import is_null, udf
from shoal.model.query.window import hop

VEHICLES = Stream(
    "vehicle_stream",
    {"ts": "timestamp", "vehicle_type": "string", "speed": "float64", "latitude": "float64", "longitude": "float64"},
    time="ts",
)


@udf("int64")
def geo_to_region(latitude, longitude):  # type: ignore[no-untyped-def]
    """One of nine squares."""
    return latitude.astype(int) * 3 + longitude.astype(int)


FUNCTIONS = {"geo_to_region": geo_to_region}

SQL = {
    "regional average speed": """
SELECT geo_to_region(latitude, longitude) AS region_id,
       vehicle_type,
       HOP_END(ts, INTERVAL '1' SECOND, INTERVAL '30' SECOND) AS window_end,
       AVG(speed) AS avg_speed
FROM (
  SELECT ts, vehicle_type, speed, latitude, longitude
  FROM vehicle_stream
  WHERE latitude IS NOT NULL AND longitude IS NOT NULL
)
GROUP BY geo_to_region(latitude, longitude),
         vehicle_type,
         HOP(ts, INTERVAL '1' SECOND, INTERVAL '30' SECOND);
""",
    "regional vehicle count": """
SELECT geo_to_region(latitude, longitude) AS region_id,
       HOP_END(ts, INTERVAL '1' SECOND, INTERVAL '10' SECOND) AS window_end,
       COUNT(*) AS vehicle_count
FROM (
  SELECT ts, latitude, longitude
  FROM vehicle_stream
  WHERE latitude IS NOT NULL AND longitude IS NOT NULL
)
GROUP BY geo_to_region(latitude, longitude),
         HOP(ts, INTERVAL '1' SECOND, INTERVAL '10' SECOND);
""",
    "regional top-3 speed": """
SELECT *
FROM (
  SELECT *,
         ROW_NUMBER() OVER (
           PARTITION BY region_id, vehicle_type, HOP(ts, INTERVAL '1' SECOND, INTERVAL '20'
            SECOND)
           ORDER BY speed DESC
         ) AS rank
  FROM (
    SELECT
      ts,
      vehicle_type,
      speed,
      geo_to_region(latitude, longitude) AS region_id,
      HOP(ts, INTERVAL '1' SECOND, INTERVAL '20' SECOND) AS window_start
    FROM vehicle_stream
    WHERE latitude IS NOT NULL AND longitude IS NOT NULL
  )
)
WHERE rank <= 3;
""",
}

_KNOWN = VEHICLES.filter(~is_null("latitude") & ~is_null("longitude"))
_PLACED = _KNOWN.with_columns(region_id=geo_to_region("latitude", "longitude"))
PYTHON: dict[str, Flow] = {
    "regional average speed": _PLACED.key_by("region_id", "vehicle_type")
    .window(hop(30, 1))
    .aggregate(avg_speed=mean("speed")),
    "regional vehicle count": _PLACED.key_by("region_id").window(hop(10, 1)).aggregate(vehicle_count=count()),
    "regional top-3 speed": _KNOWN.select(
        "ts", "vehicle_type", "speed", region_id=geo_to_region("latitude", "longitude")
    )
    .assign(hop(20, 1))
    .key_by("region_id", "vehicle_type", "window_end")
    .rank("speed", 3, column="rank")
    .select("ts", "vehicle_type", "speed", "region_id", "window_start", "rank"),
}
