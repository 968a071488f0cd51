"""Subjects other than flows: workloads of the catalog and measure functions, and the parameters each can have."""

import ast
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from shoal.connectors.sources.rate import rate_of
from shoal.errors import ShoalError, did_you_mean
from shoal.experiments.engines.catalog import ENGINES as FLOW_ENGINES
from shoal.experiments.engines.engine import ENGINES
from shoal.experiments.experiment import ENGINE, MeasureFunction, Parameters, Subject, TaskFlow, WorkloadRun
from shoal.experiments.workload_trial import WorkloadTrial
from shoal.language.yaml.document import YamlPart
from shoal.workloads.catalog import WORKLOADS, workload

MEASURES = "measures"
"""The directory, beside experiment files, in which measure functions are looked for as well."""
_OWN = ("workload", "settings", "local")
WORKLOAD_PARAMETERS = tuple(each.name for each in fields(WorkloadTrial) if each.name not in _OWN)
PREFIXES = ("set.", "conf.")
"""Parameters of a workload that begin so are settings of the workload, or of the engine."""


def read_workload(part: YamlPart) -> WorkloadRun:
    """A workload by its name."""
    name = part.text("workload")
    if name not in WORKLOADS:
        part.fail(f"there is no workload {name!r}; there are {', '.join(WORKLOADS)}{did_you_mean(name, WORKLOADS)}")
    return WorkloadRun(name)


def read_measure(part: YamlPart, path: str) -> MeasureFunction:
    """A function of a Python file beside the experiment's; the file is parsed, not run."""
    text = part.text("measure")
    file, colon, function = text.rpartition(":")
    if not colon or not file.endswith(".py") or not function.isidentifier():
        part.fail(f"measure must be a file and a function, as in measures/twin.py:choice; got {text!r}")
    beside = Path(path).parent
    candidates = [each for each in (Path(file), Path(MEASURES) / file) if (beside / each).is_file()]
    if not candidates:
        part.fail(f"there is no file {beside / file}, and none of this name in {beside / MEASURES}")
    known = _functions(beside / candidates[0], part)
    if function not in known:
        near = did_you_mean(function, known)
        part.fail(f"{candidates[0]} has no function {function!r}; there are {', '.join(known) or 'none'}{near}")
    return MeasureFunction(candidates[0].as_posix(), function)


def _functions(file: Path, part: YamlPart) -> list[str]:
    """The public functions of a Python file."""
    try:
        body = ast.parse(file.read_text(encoding="utf-8")).body
    except (SyntaxError, UnicodeDecodeError) as error:
        part.fail(f"{file} is not Python: {error}")
    return [each.name for each in body if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")]


def check_points(subject: Subject, points: Iterable[Parameters], part: YamlPart) -> None:
    """Refuse points that cannot be run because of a name or a value."""
    known = tuple(FLOW_ENGINES if isinstance(subject, TaskFlow) else ENGINES)
    for point in points:
        engine = point.get(ENGINE)
        if ENGINE in point and engine not in known and not isinstance(subject, MeasureFunction):
            near = did_you_mean(str(engine), known)
            part.fail(f"engine must be one of {', '.join(known)}; got {engine!r}{near}")
        if isinstance(subject, WorkloadRun):
            _check_workload(subject.workload, point, part)


def _check_workload(name: str, point: Parameters, part: YamlPart) -> None:
    settings = workload(name).settings
    for parameter, value in point.items():
        if parameter.startswith("conf."):
            continue
        if parameter.startswith("set."):
            if parameter.removeprefix("set.") not in settings:
                known = [f"set.{each}" for each in settings]
                part.fail(
                    f"workload {name} has no setting {parameter!r}; there are {', '.join(known) or 'none'}"
                    + did_you_mean(parameter, known)
                )
        elif parameter not in WORKLOAD_PARAMETERS:
            part.fail(
                f"a workload has no parameter {parameter!r}; there are {', '.join(WORKLOAD_PARAMETERS)}, set.NAME and "
                f"conf.NAME{did_you_mean(parameter, WORKLOAD_PARAMETERS)}"
            )
        elif parameter == "rate" and value is not None:
            try:
                rate_of(str(value))
            except ShoalError as error:
                part.fail(str(error))
