"""Experiment files: text in, `ExperimentFile` out, with everything in it checked.

>>> text = "experiments: [{name: engines, workload: ysb, vary: {engine: [duckdb, spark-sql]}, repeat: 2}]"
>>> [point["engine"] for point in read_experiments(text, "ysb.yaml").experiments[0].points]
['duckdb', 'spark-sql']
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, get_args

from shoal.errors import ConfigError, GraphError, did_you_mean, reason_of
from shoal.experiments.experiment import (
    TIMEOUT_S,
    Answers,
    Dialect,
    Experiment,
    ExperimentFile,
    FigureSpec,
    FigureType,
    Parameters,
    Subject,
    TaskFlow,
    WorkloadRun,
)
from shoal.experiments.language.declarations import Declarations, read_declarations
from shoal.experiments.language.parameters import POINT_KEYS, PointSpec
from shoal.experiments.language.subjects import check_points, read_measure, read_workload
from shoal.experiments.language.task_check import Declared, flow_at
from shoal.experiments.language.task_flow import read_flow
from shoal.language.yaml.document import YamlPart

TOP_KEYS: Mapping[str, str] = {
    "name": "the name of the file's results; by default the file's",
    "dialect": "whose words the file uses: expose or dcep-sim",
    "experiments": "what is run",
    "stream-definitions": "streams, by number",
    "datasets": "events, by number",
    "spequeries": "queries, by number",
    "tracepoints": "which tracepoints are active",
    "plots": "what the original simulator plots",
    "network": "bandwidth and latency between nodes",
}
"""The keys of a file and what each is for."""
EXPERIMENT_KEYS: Mapping[str, str] = {
    "name": "the name of the experiment; by default made of its id",
    "id": "a number, as in the original files",
    "title": "what it shows, in one line",
    "flow": "tasks in order",
    "workload": "a workload of the catalog",
    "measure": "a Python function, as in measures/twin.py:choice",
    "set": "parameters with the same value in all points",
    "vary": "parameters with several values: each combination is a point",
    "points": "points one by one",
    "repeat": "how often each point is run",
    "timeout-s": "seconds after which a trial is ended, and has failed",
    "small": "other set, vary, points and repeat, for the variant that runs in seconds",
    "answers": "what results are compared with: oracle, same or none",
    "metrics": "the metrics to show, in this order",
    "figures": "figures of metrics",
}
"""The keys of an experiment and what each is for."""
SUBJECTS = ("flow", "workload", "measure")
FIGURE_KEYS = ("type", "x", "y", "by", "title")
FIGURE_TYPES: Mapping[str, FigureType] = {each: each for each in get_args(FigureType)}
DIALECTS: Mapping[str, Dialect] = {each: each for each in get_args(Dialect)}
ANSWERS: Mapping[str, Answers] = {each: each for each in get_args(Answers)}
_Choice = TypeVar("_Choice")


def load_experiments(path: str | Path, *, small: bool = False) -> ExperimentFile:
    """The experiments of a file, or their small variants; a mistake is an error with file and line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: the file cannot be read: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: the file is not UTF-8 text") from error
    return read_experiments(text, str(path), small=small)


def read_experiments(text: str, path: str, *, small: bool = False) -> ExperimentFile:
    """The experiments of a text; `path` is where it is from, and where it looks for measure functions."""
    try:
        return _loaded(YamlPart.of(text, path, needs="experiments"), path, small=small)
    except RecursionError as error:
        raise GraphError(f"{path}: the file is nested too deeply") from error


def read_declared(text: str, path: str) -> ExperimentFile:
    """What a text declares for all experiments, without the experiments: all that a node needs to know."""
    top = YamlPart.of(text, path, needs="experiments").entries("an experiment file", TOP_KEYS, hyphens=True)
    found = read_declarations(top)
    return ExperimentFile(
        path,
        Path(path).stem,
        _dialect_of(top)[0],
        (),
        found.streams,
        found.datasets,
        found.queries,
        found.tracepoints,
        found.plots,
        found.network,
    )


def flow_for(file: ExperimentFile, flow: TaskFlow, parameters: Parameters) -> TaskFlow:
    """The flow that a trial of a file carries out: parameters have their values, arguments their one form."""
    return flow_at(flow, parameters, _declared_names(file.dialect, file))


def _dialect_of(top: Mapping[str, YamlPart]) -> tuple[Dialect, str]:
    """Whose words a file uses, and why that is known."""
    if "dialect" in top:
        return _choice(top["dialect"], "dialect", DIALECTS), "the file says so"
    if "network" in top:
        return "dcep-sim", "the file has a key 'network'"
    return "expose", "the file has no key 'network'"


def _loaded(whole: YamlPart, path: str, *, small: bool) -> ExperimentFile:
    top = whole.entries("an experiment file", TOP_KEYS, hyphens=True)
    if "experiments" not in top:
        whole.fail("an experiment file must have a key 'experiments'")
    dialect, why = _dialect_of(top)
    declared = read_declarations(top)
    items = top["experiments"].items("experiments")
    if not items:
        top["experiments"].fail("experiments must have at least one experiment")
    return ExperimentFile(
        path,
        top["name"].text("name of the file") if "name" in top else Path(path).stem,
        dialect,
        _named_apart([_experiment(item, dialect, declared, path, small=small) for item in items]),
        declared.streams,
        declared.datasets,
        declared.queries,
        declared.tracepoints,
        declared.plots,
        declared.network,
        why,
    )


def _named_apart(experiments: list[Experiment]) -> tuple[Experiment, ...]:
    """Experiments with different names: those of the original files that share one get their ids behind it."""
    names = [each.name.casefold() for each in experiments]
    found = [
        replace(each, name=f"{each.name} {each.id}") if names.count(name) > 1 and each.id is not None else each
        for each, name in zip(experiments, names, strict=True)
    ]
    seen: dict[str, Experiment] = {}
    for each in found:
        if other := seen.get(each.name.casefold()):
            raise GraphError(
                f"{each.where}: two experiments must not have one name; got {each.name!r} of {other.where}"
            )
        seen[each.name.casefold()] = each
    return tuple(found)


def _experiment(item: YamlPart, dialect: Dialect, declared: Declarations, path: str, *, small: bool) -> Experiment:
    entries = item.entries("experiment", EXPERIMENT_KEYS, hyphens=True)
    subject = _subject(item, entries, dialect, path)
    spec = PointSpec.of(entries)
    changed = spec.changed(_small(entries.get("small")))
    variants = {"": spec.made(item), "small ": changed.made(item)}
    for points in variants.values():
        check_points(subject, points, item)
        if isinstance(subject, TaskFlow):
            for point in points:
                flow_at(subject, point, _declared_names(dialect, declared))
    made = Experiment(
        _name(item, entries),
        subject,
        variants["small " if small else ""],
        entries["id"].number("id of an experiment") if "id" in entries else None,
        entries["title"].text("title") if "title" in entries else "",
        (changed if small else spec).repeat or 1,
        _answers(entries.get("answers"), subject),
        tuple(each.text("a metric") for each in entries["metrics"].items("metrics")) if "metrics" in entries else (),
        timeout_s=_timeout_s(entries.get("timeout-s")),
        where=item.where,
    )
    return replace(made, figures=_figures(entries.get("figures"), made))


def _timeout_s(part: YamlPart | None) -> float:
    if part is None:
        return TIMEOUT_S
    seconds = part.data()
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        part.fail(f"timeout_s must be a positive number of seconds; got {part.shown}")
    return float(seconds)


def _declared_names(dialect: Dialect, declared: Declarations | ExperimentFile) -> Declared:
    """What the arguments of tasks can refer to."""
    return Declared(
        dialect,
        {number: each.name for number, each in declared.streams.items()},
        {number: each.name for number, each in declared.datasets.items()},
        {number: each.name for number, each in declared.queries.items()},
    )


def _subject(item: YamlPart, entries: Mapping[str, YamlPart], dialect: Dialect, path: str) -> Subject:
    said = [key for key in SUBJECTS if key in entries]
    if len(said) != 1:
        item.fail(f"an experiment must have one of the keys {', '.join(SUBJECTS)}; got {' and '.join(said) or 'none'}")
    part = entries[said[0]]
    if said[0] == "flow":
        return read_flow(part, dialect)
    return read_workload(part) if said[0] == "workload" else read_measure(part, path)


def _name(item: YamlPart, entries: Mapping[str, YamlPart]) -> str:
    if "name" not in entries:
        if "id" not in entries:
            item.fail("an experiment must have a name, or at least an id")
        return f"experiment {entries['id'].number('id of an experiment')}"
    name = entries["name"].text("name of an experiment").strip()
    if not name or "/" in name or name.startswith("."):
        entries["name"].fail(f"name of an experiment must be usable for a directory, without '/'; got {name!r}")
    return name


def _small(part: YamlPart | None) -> PointSpec:
    return PointSpec() if part is None else PointSpec.of(part.entries("small", POINT_KEYS))


def _answers(part: YamlPart | None, subject: Subject) -> Answers:
    """What results are compared with; by default the oracle for workloads, and each other for the rest."""
    if part is None:
        return "oracle" if isinstance(subject, WorkloadRun) else "same"
    said = _choice(part, "answers", ANSWERS)
    if said == "oracle" and isinstance(subject, TaskFlow):
        part.fail("answers of a flow must be same or none, since only workloads have an oracle; got oracle")
    return said


def _choice(part: YamlPart, what: str, choices: Mapping[str, _Choice]) -> _Choice:
    """One of a few words."""
    said = part.text(what)
    if said not in choices:
        part.fail(f"{what} must be one of {', '.join(choices)}; got {said!r}{did_you_mean(said, choices)}")
    return choices[said]


def _figures(part: YamlPart | None, experiment: Experiment) -> tuple[FigureSpec, ...]:
    names = list(dict.fromkeys(name for point in experiment.points for name in point))
    return tuple(_figure(item, names) for item in part.items("figures")) if part else ()


def _figure(item: YamlPart, parameters: list[str]) -> FigureSpec:
    entries = item.entries("figure", FIGURE_KEYS)
    said = {key: part.text(f"{key} of a figure") for key, part in entries.items()}
    for key in ("type", "y"):
        if key not in said:
            item.fail(f"a figure must have a key {key!r}; got {item.shown}")
    type_: FigureType = _choice(entries["type"], "type of a figure", FIGURE_TYPES)
    over_time = type_ == "series"
    if type_ in ("bars", "lines") and "x" not in said:
        item.fail(f"a figure of type {type_} must have a key 'x': a parameter")
    for key in ("by",) if over_time else ("x", "by"):
        if key in said and said[key] not in parameters:
            known = ", ".join(parameters) or "there are none"
            near = did_you_mean(said[key], parameters)
            entries[key].fail(f"{key} of a figure must be a parameter ({known}); got {said[key]!r}{near}")
    return FigureSpec(type_, said["y"], said.get("x", ""), said.get("by", ""), said.get("title", ""))
