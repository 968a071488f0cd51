"""The shape of the source tree: layers, purity, sizes and names."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

import shoal

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "shoal"
MODULES = sorted(PACKAGE.rglob("*.py"))

MAX_LINES = 400
EMPTY_NAMES = {"utils", "helpers", "common", "manager", "core", "misc"}
PURE_PACKAGES = ["model", "kernels", "policies", "mechanisms", "control"]
OUTSIDE_WORLD = {
    "asyncio",
    "concurrent",
    "http",
    "multiprocessing",
    "pyspark",
    "sched",
    "select",
    "signal",
    "socket",
    "subprocess",
    "threading",
    "time",
    "urllib",
}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE.parent).as_posix()


@pytest.fixture(scope="module")
def import_graph() -> grimp.ImportGraph:
    return grimp.build_graph("shoal", include_external_packages=True, cache_dir=None)


def test_the_package_under_test_is_this_source_tree() -> None:
    assert Path(shoal.__file__).parent.samefile(PACKAGE)


def test_imports_keep_the_contracts_of_pyproject() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    command = [str(linter), "--no-logo", "--no-cache"]
    report = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert report.returncode == 0, report.stdout + report.stderr


def test_every_package_has_its_place_in_the_layers() -> None:
    configuration = (ROOT / "pyproject.toml").read_text()
    placed = set(re.findall(r"\((\w+)\)", configuration))
    children = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert {child for child in children if not child.startswith("__")} <= placed


@pytest.mark.parametrize("package", PURE_PACKAGES)
def test_decisions_and_state_import_no_clock_thread_socket_or_spark(
    package: str, import_graph: grimp.ImportGraph
) -> None:
    reached = {
        f"{module} -> {imported}"
        for module in import_graph.modules
        if module == f"shoal.{package}" or module.startswith(f"shoal.{package}.")
        for imported in import_graph.find_modules_directly_imported_by(module)
        if imported in OUTSIDE_WORLD
    }
    assert not reached


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_fits_in_the_head(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_named_by_what_it_holds(path: Path) -> None:
    assert EMPTY_NAMES.isdisjoint(path.relative_to(PACKAGE).with_suffix("").parts)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_class_is_not_named_by_its_place_in_a_hierarchy(path: Path) -> None:
    classes = [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]
    assert not [name for name in classes if re.match(r"_?(Abstract|Base|I)[A-Z][a-z]", name)]


@pytest.mark.parametrize("path", [path for path in MODULES if path.name == "__init__.py"], ids=name_of)
def test_a_package_file_holds_public_names_only(path: Path) -> None:
    """Lazy imports need `__getattr__` and `__dir__`; everything else is defined in a module of its own."""
    defined = {
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert defined <= {"__getattr__", "__dir__"}


def test_every_directory_with_modules_is_a_package() -> None:
    directories = {path.parent for path in MODULES}
    assert not [name_of(directory) for directory in directories if not (directory / "__init__.py").exists()]


def test_type_checkers_of_users_see_the_annotations() -> None:
    assert (PACKAGE / "py.typed").exists()
