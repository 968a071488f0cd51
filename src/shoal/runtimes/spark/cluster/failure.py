"""Failures of Spark: its error text reduced to the one sentence that Shoal raised in another process."""

import contextlib
import logging
import re

from pyspark.sql.streaming.query import StreamingQuery

from shoal import errors
from shoal.compiler.query_failure import failure_text
from shoal.errors import CheckpointError, ConfigError, MessageError, QueryError, RunError, ShoalError
from shoal.runtimes.spark.cluster.log import SPARK_LOG
from shoal.runtimes.spark.tasks.reports import FAILURES

_OURS = re.compile(r"shoal\.errors\.(\w+): (.+)")
_OF_QUERY = re.compile(r"shoal\.errors\.QueryError: (\{.+\})")
_NAMED = re.compile(r"(?:^|[\s:])([\w.$]+(?:Error|Exception|Interrupt): .+)")
_DAMAGED = re.compile(r"Checksum error: (?:file:)?(\S+) at ")
_LONGEST = 600
LOG = logging.getLogger("shoal")


def failed_queries(error: Exception) -> QueryError | None:
    """The error of the queries that failed in a task, if that is what Spark reports."""
    if isinstance(error, QueryError) and error.queries:
        return error
    found = _OF_QUERY.findall(f"shoal.errors.QueryError: {error}" if isinstance(error, QueryError) else str(error))
    for text in reversed(found):
        with contextlib.suppress(MessageError):
            failure = FAILURES.decode(text.strip().encode())
            message = failure_text(failure.queries, failure.reason, failure.row)
            return QueryError(message, failure.queries, failure.reason, failure.row)
    return None


def translated(error: Exception) -> Exception:
    """The Shoal error inside Spark's text; other failures become a `RunError` with their gist."""
    of_query = failed_queries(error)
    if of_query is not None:
        return of_query
    if isinstance(error, ShoalError):
        return error
    text = str(error)
    found = _OURS.findall(text)
    if found:
        name, message = found[-1]
        kind = getattr(errors, name, RunError)
        return kind(message.strip())
    damaged = _DAMAGED.search(text)
    if damaged:
        return CheckpointError(f"file {damaged[1]} is damaged: its checksum does not match; restore it from a copy")
    kind = CheckpointError if "STREAMING_CHECKPOINT" in text else RunError
    return kind(f"the Spark job failed: {_gist(text)}{SPARK_LOG.keep()}")


def stop_job(query: StreamingQuery) -> None:
    """Stop a streaming job whose epochs are all committed, so that it is no failure if Spark cannot."""
    try:
        query.stop()
    except Exception as error:  # noqa: BLE001  (whatever it is, the run has what it needs)
        LOG.warning("Spark could not stop the streaming job: %s", error)


def not_started(error: Exception) -> ConfigError:
    """The error for a Spark that did not start, e.g. a wrong setting, or Java missing or too old."""
    said = SPARK_LOG.tail() if "JAVA_GATEWAY_EXITED" in str(error) else str(error)
    return ConfigError(f"Spark does not start: {_gist(said)}{SPARK_LOG.keep()}")


def _gist(text: str) -> str:
    """The last named exception, or the beginning of the text without stack traces."""
    lines = [line.strip() for line in text.partition("=== Streaming Query ===")[0].splitlines()]
    lines = [line for line in lines if line and not line.startswith("at ")]
    named = [found.group(1) for line in lines if (found := _NAMED.search(line))]
    return (named[-1] if named else " ".join(lines))[:_LONGEST]
