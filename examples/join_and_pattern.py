"""Two streams, a pattern and a join.

A shop has a stream of logins and one of payments. Somebody who fails to log in at least three times, then succeeds, and
then pays within a minute may not be who he says. The pattern finds the logins, the join finds the payments behind them.
"""

import tempfile
from pathlib import Path

from shoal import Files, Job, Stream, col, start

LOGINS = """\
ts,user,ok
2024-01-01T08:00:00,ann,true
2024-01-01T08:00:05,bob,false
2024-01-01T08:00:07,bob,false
2024-01-01T08:00:08,bob,false
2024-01-01T08:00:09,bob,true
2024-01-01T08:00:20,eve,false
2024-01-01T08:00:21,eve,true
"""
PAYMENTS = """\
ts,user,cents
2024-01-01T08:00:10,ann,1200
2024-01-01T08:00:30,bob,99900
2024-01-01T08:00:40,eve,500
2024-01-01T08:05:00,bob,100
"""

logins = Stream("logins", {"ts": "timestamp", "user": "string", "ok": "bool"}, time="ts")
payments = Stream("payments", {"ts": "timestamp", "user": "string", "cents": "int64"}, time="ts")

guessed = logins.key_by("user").match(
    "Failed{3,} Ok",
    within_s=60,
    define={"Failed": ~col("ok"), "Ok": col("ok")},
    measures={"tries": "count(Failed)", "logged_in": "last(Ok.ts)"},
)
queries = [
    logins.filter(col("ok")).join(payments, on="user", within_s=(0, 60)).select("user", "cents").sink("paid"),
    guessed.join(payments, on="user", within_s=(0, 60))
    .select("user", "tries", "logged_in", "cents")
    .sink("suspicious"),
]

directory = Path(tempfile.mkdtemp())
sources = {}
for name, text in (("logins", LOGINS), ("payments", PAYMENTS)):
    (directory / name).mkdir()
    (directory / name / "1.csv").write_text(text)
    sources[name] = Files(str(directory / name), format="csv", follow=False)

run = start(Job.of("shop", queries, sources))
run.wait()
for table in run.sink.names():
    print(f"{table}: {run.sink.table(table).drop_columns(['query']).sort_by('user').to_pylist()}")
