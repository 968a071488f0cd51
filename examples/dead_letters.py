"""Bad input never disappears silently.

A sensor writes CSV files, and not every line is what it should be. Rows that cannot be taken go to the table
`dead_letters` with the reason, where it was and the unchanged row; the good ones are counted as usual.
"""

import tempfile
from pathlib import Path

from shoal import Files, Job, Stream, count, mean, start, tumbling

FIRST = """\
ts,sensor,celsius
2024-01-01T08:00:00,a,20.5
2024-01-01T08:00:01,b,warm
2024-01-01T08:00:02,a,
2999-01-01T00:00:00,a,21.0
2024-01-01T08:00:40,b,19.0
"""
SECOND = """\
ts,sensor,celsius
2024-01-01T08:00:03,a,20.0
2024-01-01T08:00:45,a,22.0
"""

directory = Path(tempfile.mkdtemp())
(directory / "1.csv").write_text(FIRST)
(directory / "2.csv").write_text(SECOND)

readings = Stream(
    "readings", {"ts": "timestamp", "sensor": "string", "celsius": "float64 not null"}, time="ts", lateness_s=5
)
query = readings.key_by("sensor").window(tumbling(10)).aggregate(n=count(), celsius=mean("celsius")).sink("celsius")
source = Files(str(directory), format="csv", follow=False, files_per_epoch=1)

run = start(Job.of("sensors", [query], {"readings": source}))
tally = run.wait()
print(run.sink.table("celsius").to_pandas().to_string(index=False))
print(f"{tally.events} rows read, {tally.dead_letters} dead letters: {dict(tally.refusals)}")
for letter in run.sink.table("dead_letters").to_pylist():
    print(f"{letter['reason']:6} {letter['detail']}")
    print(f"       {letter['row']}")
