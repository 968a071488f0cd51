"""Pages that are filled from kept results: what marks give, and what is said of those that make no sense."""

from pathlib import Path

import pytest

from shoal.errors import ConfigError
from shoal.experiments.experiment import Experiment, FigureSpec, MeasureFunction
from shoal.experiments.results.answers import AnswerVerdict
from shoal.experiments.results.documentation import filled
from shoal.experiments.results.kept import keep, kept_named, read_kept
from shoal.experiments.results.point_summary import ExperimentSummary, PointSummary

POLICIES = {"greedy": (30.0, 31.0), "guarded": (18.0, 18.04), "metis": (18.01, 18.0)}
EXPERIMENT = Experiment(
    "fig-2",
    MeasureFunction("m.py", "point"),
    tuple({"vehicles": number, "policy": policy} for number in (340, 360) for policy in (*POLICIES, "random")),
    title="Latency",
    repeat=2,
    figures=(FigureSpec("bars", "latency_ms.mean", "policy"),),
)
ENVIRONMENT = {"cores": 2, "memory_gb": 8.0, "load_1min": 0.5, "version": "1a2b3c4", "python": "3.11.7"}


def summary(scale: float = 1.0) -> ExperimentSummary:
    points = tuple(
        PointSummary(
            {"vehicles": number, "policy": policy},
            f"vehicles={number}, policy={policy}",
            AnswerVerdict("same"),
            2,
            metrics={"latency_ms.mean": tuple(scale * each for each in values), "moves": (7.0, 7.0)},
        )
        for number in (340, 360)
        for policy, values in POLICIES.items()
    )
    shown = ("latency_ms.mean", "moves")
    return ExperimentSummary(
        "studies", "fig-2", "Latency", "same", shown, points, EXPERIMENT.figures, ENVIRONMENT, "2026-11-18T10:00:00"
    )


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    keep(str(tmp_path / "experiments" / "studies.yaml"), EXPERIMENT, summary())
    return tmp_path / "experiments" / "kept"


def page(kept: Path, text: str) -> Path:
    path = kept.parents[1] / "page.md"
    path.write_text(text)
    return path


def made(kept: Path, text: str) -> str:
    return filled(page(kept, text), kept).text


def test_kept_results_are_read_as_they_were_kept(kept: Path) -> None:
    found = kept_named(kept, "studies", "fig-2")
    assert found.summary == summary()
    assert found.command.endswith("studies.yaml --only fig-2")
    assert found.unmeasured == ("vehicles=340, policy=random", "vehicles=360, policy=random")


def test_a_point_of_kept_results_is_a_line(kept: Path) -> None:
    before = (kept / "studies" / "fig-2.json").read_text().splitlines()
    changed = summary()
    first = changed.points[0]
    object.__setattr__(first, "metrics", {"moves": (9.0,)})
    keep(str(kept.parent / "studies.yaml"), EXPERIMENT, changed)
    after = (kept / "studies" / "fig-2.json").read_text().splitlines()
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


def test_a_section_has_command_machine_table_notes_and_figure(kept: Path) -> None:
    text = made(kept, "# A\n\n<!-- kept studies/fig-2 -->\nold\n<!-- /kept -->\n\nprose\n")
    assert "studies.yaml --only fig-2`" in text
    assert "Measured on 2026-11-18: 2 cores, 8.0 GB, load 0.5 before the first run; version 1a2b3c4" in text
    assert "| 340 | greedy | 30.5 (30-31) | 7 |" in text
    assert "Medians of 2 runs" in text
    assert "Not measured: vehicles=340, policy=random" in text
    assert "![Latency](figures/studies-fig-2.png)" in text
    assert "old" not in text
    assert text.endswith("<!-- /kept -->\n\nprose\n")


def test_a_mark_chooses_parts_columns_and_points(kept: Path) -> None:
    text = made(
        kept, "<!-- kept studies/fig-2 show=table metrics=moves vehicles=360 policy=metis,greedy -->\n<!-- /kept -->"
    )
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[0].startswith("| policy | moves |")
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| greedy", "| metis"]
    assert "Measured" not in text


@pytest.mark.parametrize(
    ("order", "expected"),
    [("", "`guarded` and `metis` 18, `greedy` 30.5"), (" order=falling", "`greedy` 30.5, `guarded` and `metis` 18")],
)
def test_a_list_names_points_by_their_medians(kept: Path, order: str, expected: str) -> None:
    mark = f"<!-- kept studies/fig-2 list=latency_ms.mean by=policy vehicles=340{order} -->"
    assert made(kept, f"| ms: {mark}<!-- /kept --> | holds |\n") == f"| ms: {mark}{expected}<!-- /kept --> | holds |\n"


def test_a_value_is_that_of_the_only_point(kept: Path) -> None:
    mark = "<!-- kept studies/fig-2 value=moves policy=metis vehicles=340 -->"
    assert made(kept, f"{mark}?<!-- /kept --> moves") == f"{mark}7<!-- /kept --> moves"


def test_marks_in_code_are_examples(kept: Path) -> None:
    text = "write `<!-- kept FILE/NAME -->`:\n\n```markdown\n<!-- kept FILE/NAME -->\n<!-- /kept -->\n```\n"
    assert made(kept, text) == text


def test_a_filled_page_has_no_differences_until_other_results_are_kept(kept: Path) -> None:
    path = page(kept, "<!-- kept studies/fig-2 -->\n<!-- /kept -->\n")
    filled(path, kept).write()
    assert filled(path, kept).differences == []
    keep(str(kept.parent / "studies.yaml"), EXPERIMENT, summary(2.0))
    assert [each.partition(" is not ")[2] for each in filled(path, kept).differences] == [
        "what was kept",
        "drawn from what was kept",
    ]


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        pytest.param("studies", "must be FILE/EXPERIMENT and NAME=VALUE", id="no experiment"),
        pytest.param("studies/fig-3", "studies/fig-2; did you mean 'studies/fig-2'", id="nothing kept"),
        pytest.param("studies/fig-2 show=tables", "must show some of title, .*; got 'tables'", id="no such part"),
        pytest.param(
            "studies/fig-2 policy=gready", "must choose a point by policy, vehicles; it chooses none", id="no point"
        ),
        pytest.param(
            "studies/fig-2 metrics=latency_ms", "must name one of .*; did you mean 'latency_ms.mean'", id="no metric"
        ),
    ],
)
def test_a_mark_that_makes_no_sense_is_an_error(kept: Path, mark: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(kept, f"<!-- kept {mark} -->\n<!-- /kept -->")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("<!-- kept studies/fig-2 -->\n", "must have <!-- /kept --> behind", id="no end"),
        pytest.param("<!-- kept studies/fig-2 --><!-- /kept -->", "must have value=METRIC, or list=", id="no words"),
        pytest.param(
            "<!-- kept studies/fig-2 value=moves --><!-- /kept -->",
            "must choose one point; it chooses",
            id="many points",
        ),
    ],
)
def test_a_place_that_cannot_be_filled_is_an_error(kept: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(kept, text)


def test_what_is_not_kept_results_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"command": 5}')
    with pytest.raises(ConfigError, match=r"x\.json has no kept results of an experiment: Expected `str`"):
        read_kept(path)
