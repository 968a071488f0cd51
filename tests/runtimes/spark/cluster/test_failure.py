import pytest

from shoal.errors import CheckpointError, ConfigError, QueryError, RunError, SchemaError, ShoalError, SourceError
from shoal.runtimes.spark.cluster.failure import not_started, translated
from shoal.runtimes.spark.tasks.reports import query_errors_encoded

WORKER_TRACEBACK = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times: Lost task
  File "/venv/lib/shoal/connectors/sources/files.py", line 61, in read
shoal.errors.SourceError: cannot read /data/a.parquet as parquet: magic bytes not found; repair or remove it

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:701)
\tat java.base/java.lang.Thread.run(Thread.java:840)
=== Streaming Query ===
Identifier: [id = 1, runId = 2]
"""


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        pytest.param(
            WORKER_TRACEBACK,
            SourceError,
            "cannot read /data/a.parquet as parquet: magic bytes not found; repair or remove it",
            id="an error of Shoal's own, raised in a Python worker",
        ),
        pytest.param(
            "Checksum error: file:/data/run/spark/commits/2 at 0 exp: 1 got: 2\n=== Streaming Query ===\nLogical Plan",
            CheckpointError,
            "file /data/run/spark/commits/2 is damaged: its checksum does not match; restore it from a copy",
            id="a damaged file of Spark's",
        ),
        pytest.param(
            "[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] the metadata file is missing",
            CheckpointError,
            "the Spark job failed: [STREAMING_CHECKPOINT_MISSING_METADATA_FILE] the metadata file is missing",
            id="a missing file of Spark's",
        ),
        pytest.param(
            "Traceback (most recent call last):\n  File 'x.py'\nZeroDivisionError: division by zero\n\n\tat org.a.b",
            RunError,
            "the Spark job failed: ZeroDivisionError: division by zero",
            id="an error of other code",
        ),
        pytest.param(
            "java.io.IOException: outer\nCaused by: java.net.ConnectException: refused",
            RunError,
            "the Spark job failed: java.net.ConnectException: refused",
            id="the cause rather than what it led to",
        ),
        pytest.param("it broke", RunError, "the Spark job failed: it broke", id="a text without a name"),
    ],
)
def test_spark_fails_in_one_sentence(text: str, kind: type[ShoalError], message: str) -> None:
    error = translated(RuntimeError(text))
    assert type(error) is kind
    assert str(error).split("; Spark's log is ")[0] == message


def test_shoals_own_errors_stay_as_they_are() -> None:
    error = SchemaError("column 'a' is missing")
    assert translated(error) is error


def test_spark_that_does_not_start_says_why() -> None:
    error = not_started(RuntimeError("it failed\n: org.apache.spark.SparkException: no such master\n\tat org.x"))
    assert isinstance(error, ConfigError)
    assert str(error).startswith("Spark does not start: org.apache.spark.SparkException: no such master")


def test_a_query_that_failed_in_a_task_is_named_by_the_driver() -> None:
    with pytest.raises(QueryError) as caught, query_errors_encoded():
        raise QueryError("", ("a", "b"), "function 'f' raised ValueError: shoal.errors.RunError: no", "k=1, t='é}\\n'")
    text = f"Traceback:\nshoal.errors.QueryError: {caught.value}\n\n\tat org.apache.spark.Task\nSQLSTATE: 38000"
    found = translated(RuntimeError(text))
    assert isinstance(found, QueryError)
    assert found.queries == ("a", "b")
    assert str(found) == (
        "queries 'a', 'b', which share what failed, failed: "
        "function 'f' raised ValueError: shoal.errors.RunError: no; row: k=1, t='é}\\n'"
    )
    assert str(translated(caught.value)) == str(found)
