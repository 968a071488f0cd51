"""A job in SQL.

`sql_job.sql` holds the stream and two queries: a rank of averages, and a pattern. This script makes readings of four
sensors for two minutes, one of which heats up, and runs the file on them.
"""

import tempfile
from math import sin
from pathlib import Path

from shoal import Files, start
from shoal.session.script import job_from_sql


def celsius(sensor: int, second: int) -> float:
    """Sensors swing around temperatures of their own; sensor 3 heats up for half a minute."""
    heating = second - 60 if sensor == 3 and 60 <= second < 90 else 0
    return round(20 + sensor + sin(second) + heating / 2, 2)


seconds = range(0, 120, 5)
lines = [f"2024-01-01T08:{s // 60:02}:{s % 60:02},{k},{celsius(k, s)}" for s in seconds for k in range(4)]
directory = Path(tempfile.mkdtemp())
(directory / "1.csv").write_text("\n".join(["ts,sensor,celsius", *lines, ""]))

script = Path(__file__).with_name("sql_job.sql").read_text()
source = Files(str(directory), format="csv", follow=False)
run = start(job_from_sql(script, "sql_job", sources={"readings": source}))
run.wait()
for table, order in (("warmest", ["window_end", "place"]), ("heating", ["began", "sensor"])):
    found = run.sink.table(table).drop_columns(["query"]).sort_by([(name, "ascending") for name in order])
    print(table, found.to_pandas().to_string(index=False), sep="\n")
