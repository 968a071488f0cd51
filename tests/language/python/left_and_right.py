"""Two streams with the same columns, flows of them, and how what is wrong is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from shoal.errors import GraphError
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import top_k
from shoal.model.query.window import tumbling

SCHEMA = {"ts": "timestamp", "k": "string", "n": "int64", "x": "float64", "seen": "timestamp not null"}
LEFT, RIGHT = Stream("left", SCHEMA, time="ts"), Stream("right", SCHEMA, time="ts")
TIMELESS = LEFT.select("k", "n")
WINDOWED = LEFT.window(tumbling(1))
LISTS = LEFT.window(tumbling(1)).aggregate(top=top_k("n", 2))
SHORT = LEFT.select("ts", "n")
ZONES = {"n": [1, 2], "zone": ["a", "b"], "rate": [0.5, 1.0]}
WHERE = "on stream 'left'"
NO_TIME = "needs the event-time column 'ts'; there are only k, n; keep it in the select before"


def refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        build()
    assert str(caught.value) == message
