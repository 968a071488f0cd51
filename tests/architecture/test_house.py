"""The rooms of the house: small enough to survey, and named so that a module is found by its name."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from tests.architecture.test_layers import MODULES, PACKAGE, name_of

MAX_MODULES = 14
ROOMS = sorted({path.parent for path in MODULES})

SAME_IDEA = {
    "catalog": "the list of what can be chosen by name: policies, mechanisms, workloads",
    "delivery": "when results reach the sink, on the local runtime and in simulation",
    "document": "YAML with lines: any document, and one that describes a machine",
    "events": "what a workload's streams consist of, for each workload",
    "experiment": "experiments as values; the command that plans and runs them",
    "files": "events in files: read by a source, written for a trial",
    "functions": "the functions of expressions: declared in the model, computed in kernels",
    "graph": "the graph; the command that shows it",
    "hosts": "the computers: of a machine that is simulated, and what policies know of them",
    "join": "the join: declared in Python, computed in a kernel",
    "journal": "the journal: its entries in control, its file in session",
    "launch": "how a run starts, for each runtime",
    "machine": "the machine: the one that an experiment ran on, one that is simulated",
    "match": "the pattern match: declared in Python, computed in a kernel",
    "oracle": "the expected results, for each workload",
    "pattern": "the pattern: in the model, in SQL",
    "profile": "the profile of a run: taken by a runtime, passed on by session, shown by cli",
    "queries": "the queries of each workload and experiment; the command that changes those of a run",
    "rank": "the ranking: declared in Python, computed in a kernel",
    "rebinding": "a rebinding that is under way, on Spark and in simulation",
    "report": "what is reported: of a run by its runtime, of trials by an experiment, of state that was shed",
    "run": "the run; the command that starts one",
    "runtime": "the runtime itself, for each runtime",
    "script": "a script of SQL; its commands carried out by a session",
    "traced_results": "where the time of results goes: in a run on threads, in a simulated one",
    "settings": "what a user can set: of control, of the local and the simulated runtime",
    "small_epochs": "which epochs the driver finishes itself, on Spark and in simulation",
    "source": "the source protocol; a source as Spark knows it",
}
"""Modules of one name in several rooms, and the idea that they share."""


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_a_room_can_be_surveyed(room: Path) -> None:
    modules = [path.name for path in room.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MAX_MODULES


def test_modules_of_one_name_share_an_idea() -> None:
    rooms_of = defaultdict(list)
    for path in MODULES:
        if path.name != "__init__.py":
            rooms_of[path.stem].append(path.parent.relative_to(PACKAGE).as_posix())
    assert not {name: rooms for name, rooms in rooms_of.items() if len(rooms) > 1 and name not in SAME_IDEA}


def test_public_classes_of_one_name_share_an_idea() -> None:
    rooms_of = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                rooms_of[node.name].append(name_of(path))
    shared = {
        "Delivery": "when results reach the sink, on the local runtime and in simulation",
        "Machine": "the cores of a machine: this one on the local runtime, any on the simulated one",
        "Rebinding": "a rebinding that is under way, for each runtime",
        "SmallEpochs": "which epochs the driver finishes itself, on Spark and in simulation",
    }
    assert not {name: rooms for name, rooms in rooms_of.items() if len(rooms) > 1 and name not in shared}


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_a_room_says_what_it_is_for(room: Path) -> None:
    assert ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
