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

from shoal.errors import SchemaError
from shoal.language.python.flow import Flow
from shoal.model.query.graph import Operator
from shoal.model.query.schema import STREAM_TYPES, Schema
from shoal.model.query.window import LARGEST_US, MICROSECONDS


class Stream(Flow):
    """Named, typed events with an event-time column: where every query begins.

    `lateness_s`: how far behind the newest event another may be and still count; the watermark trails by it.
    `max_ahead_s`: events further ahead of the clock than this are dead letters, so that one broken clock
    cannot make everything else late; None takes any time.
    """

    def __init__(
        self,
        name: str,
        schema: Mapping[str, str],
        *,
        time: str,
        lateness_s: float = 0.0,
        max_ahead_s: float | None = 86_400.0,
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
        for what, seconds in (("lateness_s", lateness_s), ("max_ahead_s", max_ahead_s or 0.0)):
            if not 0 <= seconds <= LARGEST_US / MICROSECONDS:
                raise SchemaError(
                    f"{what} of stream {name!r} must be between 0 and {LARGEST_US // MICROSECONDS}; got {seconds}"
                )
        parameters = {
            "stream": name,
            "schema": declared.as_dict(),
            "time": time,
            "lateness_us": round(lateness_s * MICROSECONDS),
            "max_ahead_us": None if max_ahead_s is None else round(max_ahead_s * MICROSECONDS),
        }
        super().__init__((Operator("source", parameters),), columns, time)

    @property
    def name(self) -> str:
        """The stream's name."""
        return str(self.operators[0].parameters["stream"])
