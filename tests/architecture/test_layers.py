"""The shape of the source tree: layers, purity, sizes and names."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

import shoal
from shoal.runtimes.registry import RUNTIMES

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

ABOVE_RUNTIMES = ["session", "cli", "control", "policies", "experiments", "workloads"]
RUNTIME_DOOR = {
    "shoal.runtimes.protocol",
    "shoal.runtimes.registry",
    "shoal.runtimes.measured.profile_file",
    "shoal.runtimes.measured.result_path",
}
PEERS = {
    f"shoal.experiments.engines.{module} -> shoal.runtimes.spark.cluster.session"
    for module in ("spark_sql", "spark_jvm")
}
"""Plain Spark, which is measured beside Shoal, starts with the same settings."""


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


def imported_below(package: str, graph: grimp.ImportGraph) -> list[tuple[str, str]]:
    """What the modules of a package import, each with its importer."""
    below = [name for name in graph.modules if name == package or name.startswith(f"{package}.")]
    return [(name, imported) for name in below for imported in graph.find_modules_directly_imported_by(name)]


def test_a_session_reads_no_clock(import_graph: grimp.ImportGraph) -> None:
    clocks = {"sched", "time", "timeit"}
    assert not [pair for pair in imported_below("shoal.session", import_graph) if pair[1] in clocks]


@pytest.mark.parametrize("package", ABOVE_RUNTIMES)
def test_nothing_above_the_runtimes_imports_one_of_them(package: str, import_graph: grimp.ImportGraph) -> None:
    reached = {
        f"{module} -> {imported}"
        for module, imported in imported_below(f"shoal.{package}", import_graph)
        if imported.startswith("shoal.runtimes.") and imported not in RUNTIME_DOOR
    }
    assert reached <= PEERS


@pytest.mark.parametrize("path", [PACKAGE / package for package in ABOVE_RUNTIMES], ids=name_of)
def test_nothing_above_the_runtimes_compares_with_the_name_of_one(path: Path) -> None:
    compared = [
        f"{name_of(module)}:{node.lineno}"
        for module in sorted(path.rglob("*.py"))
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Compare | ast.MatchValue)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and part.value in RUNTIMES
    ]
    assert not compared


def test_a_module_fits_in_the_head() -> None:
    lines = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def test_a_module_is_named_by_what_it_holds() -> None:
    named = {name_of(path): path.relative_to(PACKAGE).with_suffix("").parts for path in MODULES}
    assert [name for name, parts in named.items() if not EMPTY_NAMES.isdisjoint(parts)] == []


def test_a_class_is_not_named_by_its_place_in_a_hierarchy() -> None:
    classes = [
        (name_of(path), node.name)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    assert len(classes) > len(MODULES)
    assert [pair for pair in classes if re.match(r"_?(Abstract|Base|I)[A-Z][a-z]", pair[1])] == []


def test_a_package_file_holds_public_names_only() -> None:
    """Lazy imports need `__getattr__` and `__dir__`; everything else is defined in a module of its own."""
    defined = [
        (name_of(path), node.name)
        for path in MODULES
        if path.name == "__init__.py"
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [pair for pair in defined if pair[1] not in ("__getattr__", "__dir__")] == []


def test_every_directory_with_modules_is_a_package() -> None:
    directories = {path.parent for path in MODULES}
    assert not [name_of(directory) for directory in directories if not (directory / "__init__.py").exists()]


def test_type_checkers_of_users_see_the_annotations() -> None:
    assert (PACKAGE / "py.typed").exists()
