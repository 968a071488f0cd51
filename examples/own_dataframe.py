"""Anything Spark can read is a source.

The readings are JSON lines, for which Shoal has no connector of its own, and Spark joins them with a table before
Shoal sees them. A streaming DataFrame replaces a source in the job; everything else stays the same.
"""

import tempfile
from pathlib import Path

from shoal import Job, Stream, count, max_, start, tumbling
from shoal.runtimes.spark.cluster.session import spark_session

LINES = """\
{"ts": "2024-01-01T08:00:00Z", "sensor": 1, "celsius": 20.5}
{"ts": "2024-01-01T08:00:04Z", "sensor": 2, "celsius": 19.0}
{"ts": "2024-01-01T08:00:11Z", "sensor": 1, "celsius": 21.0}
{"ts": "2024-01-01T08:00:12Z", "sensor": 3, "celsius": 22.0}
"""

directory = Path(tempfile.mkdtemp())
(directory / "readings.json").write_text(LINES)

spark = spark_session()
rooms = spark.createDataFrame([(1, "kitchen"), (2, "kitchen"), (3, "cellar")], "sensor long, room string")
lines = spark.readStream.schema("ts timestamp, sensor long, celsius double").json(str(directory))
frame = lines.join(rooms, "sensor")

readings = Stream("readings", {"ts": "timestamp", "room": "string", "celsius": "float64"}, time="ts")
query = readings.key_by("room").window(tumbling(10)).aggregate(n=count(), celsius=max_("celsius")).sink("rooms")

run = start(Job.of("rooms", [query], {"readings": frame}), spark=spark)
run.drain()  # a DataFrame never ends by itself: read what is there, close every window, end
run.wait()
print(run.sink.table("rooms").sort_by([("window_end", "ascending"), ("room", "ascending")]).to_pandas())
