"""Watermarks of partitions and streams: what holds them back, and that they never decrease."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from shoal.compiler.program import Program, compile_graph
from shoal.compiler.watermarks import IDLE, Reading, advanced, merged_us, partition_us
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.language.python.stream import Stream
from shoal.model.query.graph import Graph

SCHEMA = {"ts": "timestamp", "k": "int64"}
SECOND = 1_000_000


def program(idle_s: float | None = None, lateness_s: float = 0.0) -> Program:
    left = Stream("left", SCHEMA, time="ts", idle_s=idle_s, lateness_s=lateness_s)
    right = Stream("right", SCHEMA, time="ts", idle_s=idle_s, lateness_s=lateness_s)
    return compile_graph(Graph.of([left.join(right, on="k", within_s=(0, 1)).sink("q")]))


def both(marks: dict[str, int]) -> int:
    return merged_us(("left", "right"), marks)


def test_a_stream_has_the_newest_time_less_its_lateness() -> None:
    marks = advanced(program(lateness_s=0.00001), {}, [Reading("left", 50), Reading("left", 40)], 0)
    assert marks["left"] == 40


def test_a_stream_of_partitions_has_the_smallest_of_those_that_are_open() -> None:
    one = advanced(program(), {}, [Reading("left", 50, "a", ("a", "b"))], 0)
    assert one.get("left", NEVER_US) == NEVER_US  # nothing is known of b yet
    two = advanced(program(), one, [Reading("left", 7, "b", ("a", "b"))], 0)
    assert (two["left"], partition_us(two, "left", "a"), partition_us(two, "left", "b")) == (7, 50, 7)
    assert advanced(program(), two, [Reading("left", 8, "b", ("a",))], 0)["left"] == 50
    assert advanced(program(), two, [Reading("left", 60, "b", ())], 0)["left"] == 60


def test_an_idle_partition_holds_nothing_back_until_it_has_rows_again() -> None:
    limited, names = program(idle_s=10), ("a", "b")
    marks = advanced(limited, {}, [Reading("left", 50, "a", names), Reading("left", 7, "b", names)], 0)
    marks = advanced(limited, marks, [Reading("left", 90, "a", names)], 9 * SECOND)
    assert marks["left"] == 7
    marks = advanced(limited, marks, [], 10 * SECOND)
    assert (marks["left"], marks[IDLE + "left"]) == (90, 0)
    marks = advanced(limited, marks, [Reading("left", 95, "b", names)], 12 * SECOND)
    assert marks["left"] == 90
    marks = advanced(limited, marks, [Reading("left", 99, "a", names)], 13 * SECOND)
    assert marks["left"] == 95


def test_an_idle_stream_holds_no_other_back_and_does_not_set_the_watermark_back_when_it_goes_on() -> None:
    limited = program(idle_s=10)
    marks = advanced(limited, {}, [Reading("left", 5), Reading("right", 50)], 0)
    assert both(marks) == 5
    marks = advanced(limited, marks, [Reading("right", 60)], 10 * SECOND)
    assert (marks[IDLE + "left"], both(marks)) == (1, 60)
    marks = advanced(limited, marks, [Reading("left", 20)], 11 * SECOND)
    assert (marks[IDLE + "left"], both(marks)) == (0, 60)


def test_a_stream_that_never_had_rows_is_idle_after_the_limit() -> None:
    marks = advanced(program(idle_s=10), {}, [Reading("right", 50)], 0)
    assert both(marks) == NEVER_US
    assert both(advanced(program(idle_s=10), marks, [Reading("right", 51)], 10 * SECOND)) == 51


def test_when_all_streams_have_ended_nothing_is_waited_for() -> None:
    marks = advanced(program(), {}, [Reading("left", 5, ended=True), Reading("right", 50)], 0)
    assert both(marks) == 50
    assert merged_us({"left"}, marks) == FOREVER_US
    marks = advanced(program(), marks, [Reading("right", 60, ended=True)], 0)
    assert both(marks) == FOREVER_US
    flushed = advanced(program(), marks, [Reading(each, ended=True, flush=True) for each in ("left", "right")], 0)
    assert both(flushed) == FOREVER_US


readings = st.builds(
    Reading,
    stream=st.sampled_from(["left", "right"]),
    newest_us=st.integers(0, 100) | st.just(NEVER_US),
    partition=st.sampled_from(["a", "b", "c"]),
    open=st.sets(st.sampled_from(["a", "b", "c"])).map(lambda names: tuple(sorted(names))),
    ended=st.booleans(),
)
epochs = st.lists(st.tuples(st.lists(readings, max_size=3), st.integers(0, 15)), max_size=8)


@given(epochs, st.sampled_from([None, 10]))
def test_no_watermark_ever_decreases(read: Sequence[tuple[Sequence[Reading], int]], idle_s: float | None) -> None:
    compiled, marks, now_us = program(idle_s), dict[str, int](), 0
    for several, pause_s in read:
        now_us += pause_s * SECOND
        before = {name: marks.get(name, NEVER_US) for name in ("left", "right")}, both(marks)
        one_answer = {each.stream: each.open for each in several}
        agreed = [
            Reading(each.stream, each.newest_us, each.partition, one_answer[each.stream], each.ended)
            for each in several
        ]
        marks = advanced(compiled, marks, agreed, now_us)
        assert all(marks.get(name, NEVER_US) >= mark for name, mark in before[0].items())
        assert both(marks) >= before[1]
