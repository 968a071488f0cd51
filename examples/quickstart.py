"""A hundred queries, one pass over the data.

Vehicles report where they are and how fast they go. Each of a hundred regions asks for its average speed over the
last 30 seconds, every second. Shoal merges the hundred queries into one graph and reads every event once.
"""

from shoal import Generator, Job, Stream, col, hop, mean, start
from shoal.workloads.traffic.events import TrafficEvents

vehicles = Stream("vehicles", {"ts": "timestamp", "region": "int64", "speed": "float64"}, time="ts")
queries = [
    vehicles.filter(col("region") == region)
    .key_by("region")
    .window(hop(30, 1))
    .aggregate(speed=mean("speed"))
    .sink(f"speed in region {region}", table="speed")
    for region in range(100)
]
events = Generator(TrafficEvents(vehicles=10_000, regions=100), events=300_000)

run = start(Job.of("quickstart", queries, {"vehicles": events}))
run.wait()
print(run.sink.table("speed").to_pandas())
