"""The documentation shows what was kept, what was kept was declared, and the commands of pages run what there is."""

import re
from pathlib import Path

import pytest

from shoal.experiments.language.experiment_file import load_experiments
from shoal.experiments.results.answers import WRONG
from shoal.experiments.results.documentation import filled
from shoal.experiments.results.kept import kept_files, read_kept

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "experiments" / "kept"
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "<!-- kept " in page.read_text()]
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"shoal experiment (?:run|plan|report) (experiments/[\w-]+\.yaml)((?: --only [\w.-]+)*)")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_shows_what_was_kept(page: Path) -> None:
    hint = f"shoal experiment report --docs {name_of(page)}"
    assert filled(page, KEPT).differences == [], hint


@pytest.mark.parametrize("path", kept_files(KEPT), ids=name_of)
def test_what_was_kept_is_declared_in_its_file(path: Path) -> None:
    kept = read_kept(path)
    file = load_experiments(str(ROOT / "experiments" / f"{path.parent.name}.yaml"))
    declared = {each.name: each for each in file.experiments}
    assert kept.summary.name in declared
    assert kept.command.startswith(f"shoal experiment run experiments/{path.parent.name}.yaml --only {path.stem}")
    points = [dict(point) for point in declared[path.stem].points]
    assert [point.label for point in kept.summary.points if dict(point.parameters) not in points] == []
    assert [point.label for point in kept.summary.points if point.verdict.text == WRONG] == []


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_experiments_that_a_page_runs_exist(page: Path) -> None:
    for file, only in COMMAND.findall(page.read_text()):
        names = {each.name for each in load_experiments(str(ROOT / file)).experiments}
        assert set(only.split()) - {"--only"} <= names, file
