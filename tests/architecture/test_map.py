"""docs/design/map.md names files, functions and rooms that exist, and the way of an event that a run takes."""

import ast
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from tests.architecture.event_trace import ENDS, Trace, traced_elsewhere
from tests.architecture.test_layers import PACKAGE, ROOT

MAP = ROOT / "docs" / "design" / "map.md"
RUNTIMES = ["spark", "local", "reference", "simulated"]


def section(title: str) -> str:
    """The text below a heading, up to the next one."""
    return re.split(r"^#+ ", MAP.read_text().split(f"### {title}\n")[1], flags=re.MULTILINE)[0]


def mentions(text: str) -> list[tuple[str, str]]:
    """Files in a text, each with the name in it that is mentioned, if any."""
    return re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", text)


def names_in(path: Path) -> set[str]:
    """Functions and classes of a module, and the methods of its classes."""

    def walk(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield prefix + node.name
                yield from walk(node.body, f"{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                yield prefix + node.name
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))

    return set(walk(ast.parse(path.read_text()).body))


def rooms_on_the_map() -> set[str]:
    """Directories at the beginning of a line, those in braces written out."""
    found = set()
    for line in re.findall(r"^([\w/{},]+)/(?:\s|$)", MAP.read_text(), flags=re.MULTILINE):
        parts = [part.strip("{}").split(",") for part in line.split("/")]
        found |= {"/".join(choice) for choice in product(*parts)}
    return found


def test_every_file_and_name_on_the_map_exists() -> None:
    missing = [
        f"{file}:{name}"
        for file, name in mentions(MAP.read_text())
        if not (PACKAGE / file).is_file() or (name and name not in names_in(PACKAGE / file))
    ]
    assert not missing


def test_the_map_shows_every_room_and_no_other() -> None:
    modules = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" and path.parent != PACKAGE]
    assert rooms_on_the_map() == {path.parent.relative_to(PACKAGE).as_posix() for path in modules}


def test_the_map_shows_the_layers_of_pyproject() -> None:
    layers = re.search(r"layers = \[\n(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL)
    assert layers is not None
    declared = re.findall(r'"(.+)"', layers[1].replace("(", "").replace(")", ""))
    assert "\n".join(declared) in MAP.read_text()


@pytest.fixture(scope="module", params=RUNTIMES)
def run(request: pytest.FixtureRequest) -> tuple[str, Trace]:
    return request.param, traced_elsewhere(request.param)


def test_an_event_passes_the_files_on_the_map(run: tuple[str, Trace]) -> None:
    runtime, trace = run
    way = section(f"{runtime.capitalize()}: one event")
    table = "\n".join(line for line in way.splitlines() if line.startswith("|"))
    shown = {file for file, _ in mentions(table)}
    assert trace.files == {file for file in shown if not file.startswith(ENDS)}


def test_the_map_counts_the_files_that_an_event_passes(run: tuple[str, Trace]) -> None:
    runtime, trace = run
    cells = re.search(rf"^\| {runtime} \|(.*)\|$", MAP.read_text(), flags=re.MULTILINE)
    assert cells is not None
    counted = [int(cell.split()[0]) for cell in cells[1].split("|")[1:]]
    assert counted == [len(trace.files), len(trace.files & trace.stations), len(trace.twice)]
