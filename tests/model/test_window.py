"""Windows: what panes can express, and nothing else."""

import math

import pytest

from shoal.errors import GraphError
from shoal.model.window import Window, hop, tumbling


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
        pytest.param(
            math.nan, 1, "window size and slide must be numbers of seconds; got size nan, slide 1", id="not a number"
        ),
        pytest.param(
            math.inf, 1, "window size and slide must be numbers of seconds; got size inf, slide 1", id="infinite"
        ),
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
