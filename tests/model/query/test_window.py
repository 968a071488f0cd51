"""Windows: what panes can express, and nothing else."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from shoal.errors import GraphError
from shoal.model.query.duration import FORMS
from shoal.model.query.window import AnyWindow, Window, hop, rows, sessions, tumbling, window_from_data


@pytest.mark.parametrize(
    ("window", "text", "panes"),
    [
        pytest.param(hop(30, 1), "hop 30 s every 1 s", 30, id="hopping"),
        pytest.param(tumbling(10), "tumbling 10 s", 1, id="tumbling"),
        pytest.param(hop(0.3, 0.1), "hop 0.3 s every 0.1 s", 3, id="fractions of a second"),
        pytest.param(tumbling(0.000001), "tumbling 0.000001 s", 1, id="one microsecond"),
        pytest.param(tumbling(1_000_000), "tumbling 1000000 s", 1, id="many seconds are written out"),
        pytest.param(hop(86_400.000002, 0.000001), "hop 86400.000002 s every 0.000001 s", 86_400_000_002, id="exactly"),
    ],
)
def test_a_window_says_what_it_is(window: Window, text: str, panes: int) -> None:
    assert str(window) == text
    assert window.panes == panes


@pytest.mark.parametrize(
    ("size_s", "slide_s", "message"),
    [
        pytest.param(
            30,
            7,
            "window size must be a multiple of its slide; got size 30 s, slide 7 s",
            id="size not a multiple of the slide",
        ),
        pytest.param(
            1,
            30,
            "window size must be a multiple of its slide; got size 1 s, slide 30 s",
            id="slide longer than the window",
        ),
        pytest.param(0, 0, "window size and slide must be positive; got size 0 s, slide 0 s", id="no time at all"),
        pytest.param(10, -1, "window size and slide must be positive; got size 10 s, slide -1 s", id="negative slide"),
        pytest.param(
            1, 1e-7, "window size and slide must be positive; got size 1 s, slide 0 s", id="slide below a microsecond"
        ),
        pytest.param(math.nan, 1, f"window size must be {FORMS}; got nan", id="not a number"),
        pytest.param(math.inf, 1, f"window size must be {FORMS}; got inf", id="infinite"),
        pytest.param(
            1e12,
            1,
            "window size must be at most 31536000000 s; got 1000000000000 s",
            id="longer than there are times",
        ),
    ],
)
def test_a_window_that_panes_cannot_express_cannot_be_built(size_s: float, slide_s: float, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        hop(size_s, slide_s)
    assert str(caught.value) == message


WINDOWS = [
    pytest.param(hop(30, 10), "hop 30 s every 10 s", id="hopping"),
    pytest.param(tumbling(10, on="seen"), "tumbling 10 s by seen", id="external time"),
    pytest.param(hop(30, 10, on="seen"), "hop 30 s every 10 s by seen", id="hopping external time"),
    pytest.param(tumbling(5, clock="processing"), "tumbling 5 s of processing time", id="processing time"),
    pytest.param(sessions(30), "session with gaps of 30 s", id="sessions"),
    pytest.param(sessions(0.000001), "session with gaps of 0.000001 s", id="sessions with the smallest gap"),
    pytest.param(rows(10), "10 rows every 10", id="rows one after another"),
    pytest.param(rows(10, 3), "10 rows every 3", id="rows that overlap"),
    pytest.param(rows(10, 1, partial=True), "10 rows every 1, also while filling", id="rows while filling"),
]


@pytest.mark.parametrize(("window", "text"), WINDOWS)
def test_every_window_says_what_it_is_and_survives_a_journey_through_json(window: AnyWindow, text: str) -> None:
    assert str(window) == text
    assert window_from_data(json.loads(json.dumps(window.data()))) == window


def test_a_windows_plain_form_names_only_what_is_special() -> None:
    assert tumbling(1).data() == {"size_us": 1_000_000, "slide_us": 1_000_000}
    assert rows(2).data() == {"rows": 2, "jump": 2}
    assert window_from_data({"gap_us": 5, "time": "ts"}) == sessions(0.000005)


LARGEST = "31536000000 s"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(
            lambda: sessions(0), f"gap of a session must be positive and at most {LARGEST}; got 0 s", id="no gap"
        ),
        pytest.param(
            lambda: sessions(-1),
            f"gap of a session must be positive and at most {LARGEST}; got -1 s",
            id="negative gap",
        ),
        pytest.param(
            lambda: sessions(1e12),
            f"gap of a session must be positive and at most {LARGEST}; got 1000000000000 s",
            id="gap longer than there are times",
        ),
        pytest.param(lambda: sessions(math.nan), f"gap of a session must be {FORMS}; got nan", id="gap of no number"),
        pytest.param(
            lambda: rows(0), "window of rows needs 1 <= jump <= size <= 1048576; got size 0, jump 0", id="no rows"
        ),
        pytest.param(
            lambda: rows(3, 4),
            "window of rows needs 1 <= jump <= size <= 1048576; got size 3, jump 4",
            id="rows left out between windows",
        ),
        pytest.param(
            lambda: rows(1 << 21),
            "window of rows needs 1 <= jump <= size <= 1048576; got size 2097152, jump 2097152",
            id="too many rows",
        ),
        pytest.param(
            lambda: tumbling(1, clock="wall"),  # type: ignore[arg-type]
            "clock of a window must be event or processing; got 'wall'",
            id="unknown clock",
        ),
        pytest.param(
            lambda: tumbling(1, on="seen", clock="processing"),
            "window goes by column 'seen' or by the processing clock, not by both",
            id="external and processing time",
        ),
    ],
)
def test_a_window_that_means_nothing_cannot_be_built(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        build()
    assert str(caught.value) == message
