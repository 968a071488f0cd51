"""Streams: where every query begins.

>>> from shoal.model.query.aggregate import mean
>>> from shoal.model.query.expression import col
>>> from shoal.model.query.window import hop
>>> cars = Stream("cars", {"ts": "timestamp", "road": "int64", "speed": "float64"}, time="ts")
>>> query = (
...     cars.filter(col("speed") > 0).key_by("road").window(hop(30, 1)).aggregate(avg=mean("speed")).sink("avg_speed")
... )
>>> [operator.kind for operator in query.operators]
['source', 'filter', 'window', 'aggregate', 'sink']
"""

from collections.abc import Mapping

from shoal.errors import GraphError, SchemaError
from shoal.language.python.flow import Flow
from shoal.model.query.duration import MICROSECONDS, Duration, duration_us
from shoal.model.query.graph import Operator
from shoal.model.query.schema import STREAM_TYPES, Schema
from shoal.model.query.window import LARGEST_US


class Stream(Flow):
    """Named, typed events with an event-time column: where every query begins.

    `lateness_s`: how far behind the newest event another may be and still count; the watermark trails by it.
    `max_ahead_s`: events further ahead of the clock than this are dead letters, so that one broken clock
    cannot make everything else late; None takes any time. `idle_s`: a partition of the source that has had no rows for
    this long, by the clock, no longer holds the watermark back, nor does the stream if all its partitions are idle;
    None means never.
    """

    def __init__(
        self,
        name: str,
        schema: Mapping[str, str],
        *,
        time: str,
        lateness_s: Duration = 0.0,
        max_ahead_s: Duration | None = 86_400.0,
        idle_s: Duration | None = None,
    ) -> None:
        """Declare a stream; nothing is read yet."""
        if not name.isidentifier():
            raise SchemaError(f"stream name must be an identifier; got {name!r}")
        declared = Schema.of(schema)
        columns = declared.required({time})
        for field in columns.fields:
            if field.type not in STREAM_TYPES:
                raise SchemaError(
                    f"column {field.name!r} of stream {name!r} must be {', '.join(STREAM_TYPES)}; got {field.type}"
                )
        if time not in columns or columns.type_of(time) != "timestamp":
            raise SchemaError(f"event time of stream {name!r} must be a timestamp column; got {time!r}")
        lateness_us = _duration_us(lateness_s, f"lateness_s of stream {name!r}")
        max_ahead_us = None if max_ahead_s is None else _duration_us(max_ahead_s, f"max_ahead_s of stream {name!r}")
        idle_us = None if idle_s is None else _duration_us(idle_s, f"idle_s of stream {name!r}")
        if idle_us == 0:
            raise SchemaError(f"idle_s of stream {name!r} must be more than 0; got {idle_s!r}")
        parameters: dict[str, object] = {
            "stream": name,
            "schema": declared.as_dict(),
            "time": time,
            "lateness_us": lateness_us,
            "max_ahead_us": max_ahead_us,
        }
        if idle_us is not None:
            parameters["idle_us"] = idle_us
        super().__init__((Operator("source", parameters),), columns, time)

    @property
    def name(self) -> str:
        """The stream's name."""
        return str(self.operators[0].parameters["stream"])


def _duration_us(duration: Duration, what: str) -> int:
    """A duration of a stream, not negative."""
    try:
        found = duration_us(duration, what)
    except GraphError as error:
        raise SchemaError(str(error)) from error
    if not 0 <= found <= LARGEST_US:
        raise SchemaError(f"{what} must be between 0 and {LARGEST_US // MICROSECONDS}; got {duration}")
    return found
