"""What differs between kernels, or between tables of state, is known in `kernels` only."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "shoal"
KERNELS = PACKAGE / "kernels"
BUILDER = PACKAGE / "compiler" / "build.py"
OUTSIDE = sorted(path for path in PACKAGE.rglob("*.py") if KERNELS not in path.parents)
PROTOCOLS = {"Kernel", "Table"}


@cache
def concrete_classes() -> frozenset[str]:
    """The names of all kernels and tables."""
    trees = [ast.parse(path.read_text()) for path in KERNELS.rglob("*.py")]
    classes = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return frozenset(name for name in classes if name.endswith(("Kernel", "Table"))) - PROTOCOLS


def names_in(tree: ast.AST) -> Iterator[str]:
    """All names that code mentions, imported, bare or as attributes of modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def checked_types(tree: ast.AST) -> Iterator[str]:
    """The bare names of the types that values are checked against, by `isinstance` or by `match`."""
    for node in ast.walk(tree):
        asked: ast.AST | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            asked = node.args[1]
        elif isinstance(node, ast.MatchClass):
            asked = node.cls
        if asked is not None:
            yield from (each.id for each in ast.walk(asked) if isinstance(each, ast.Name))


def test_the_kernels_and_tables_are_found() -> None:
    assert {"AggregateKernel", "JoinKernel", "MatchKernel", "PaneTable", "RowTable"} <= concrete_classes()


def test_no_module_but_the_builder_knows_a_kernel_or_table_by_name() -> None:
    trees = {path: ast.parse(path.read_text()) for path in OUTSIDE}
    assert [path for path, tree in trees.items() if PROTOCOLS & set(checked_types(tree))] == []
    knowing = [path for path, tree in trees.items() if concrete_classes() & set(names_in(tree))]
    assert knowing == [BUILDER]


def test_only_kernels_take_rows_of_state_apart_by_instance() -> None:
    relabelling = {path.name for path in OUTSIDE if "with_instances" in path.read_text()}
    assert relabelling <= {"division.py"}  # gives all rows the instances that have their keys
