"""Figures of summaries: what a picture shows, and when it has to be drawn again."""

import re
from dataclasses import replace
from pathlib import Path

from shoal.experiments.experiment import FigureSpec
from shoal.experiments.results.answers import AnswerVerdict
from shoal.experiments.results.figures import drawable, is_drawn, png, svg
from shoal.experiments.results.point_summary import ExperimentSummary, PointSummary

STACK = FigureSpec("stack", "ms")


def point(name: str, **milliseconds: float) -> PointSummary:
    metrics = {f"ms.{part}": (value, value + 2.0) for part, value in milliseconds.items()}
    every = {**metrics, "msgs": (1.0,)}
    return PointSummary({"workload": name}, f"workload={name}", AnswerVerdict("same"), 2, metrics=every)


def summary(*points: PointSummary) -> ExperimentSummary:
    return ExperimentSummary("local", "parts", "Parts", "same", (), points, (STACK,), {}, "2026-11-18T10:00:00")


def test_a_stack_shows_the_sum_of_the_medians_of_every_point() -> None:
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg(summary(point("ysb", source=1, sink=3)), STACK))
    assert {"workload=ysb", "source", "sink"} <= set(texts)
    assert " 6" in texts


def test_a_stack_needs_a_metric_of_its_name() -> None:
    assert drawable(summary(point("ysb", source=1)), STACK)
    assert not drawable(summary(point("ysb")), STACK)


def test_a_stack_is_drawn_again_when_a_part_has_changed(tmp_path: Path) -> None:
    before, path = summary(point("ysb", source=1, sink=3)), tmp_path / "parts.png"
    png(before, STACK, path)
    assert is_drawn(before, STACK, path)
    changed = replace(before.points[0], metrics={**before.points[0].metrics, "ms.sink": (9.0, 9.0)})
    assert not is_drawn(summary(changed), STACK, path)
