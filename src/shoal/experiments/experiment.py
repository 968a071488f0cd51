"""Experiments as values: what a file declares, before anything is run.

A file has streams, datasets and queries, and experiments over them. An experiment has a subject and points. A point
gives values to parameters; each is run `repeat` times, and every such run is a trial.

>>> ysb = Experiment("engines", WorkloadRun("ysb"), ({"engine": "duckdb", "events": 1000},), repeat=2)
>>> [trial.key for trial in ysb.trials("ysb.yaml")]
['engine=duckdb+events=1000', 'engine=duckdb+events=1000']
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from shoal.language.yaml.definitions import Dataset, StreamDefinition
from shoal.model.query.graph import Query

Scalar = str | int | float | bool | None
Parameters = Mapping[str, Scalar]
Dialect = Literal["expose", "dcep-sim"]
"""Whose words a file uses; they differ in `wait` (milli- or microseconds) and `deployQueries` (quantity or id)."""
Answers = Literal["oracle", "same", "none"]
"""What results are compared with: the batch oracle, those of the other points, or nothing."""
FigureType = Literal["bars", "lines", "series", "stack"]
TIMEOUT_S = 1800.0
"""How long a trial may take unless its experiment says something else."""
KEY_CHARACTERS = 160
"""The most characters of a point's name; a file name may have 255 bytes."""
OracleVerdict = Literal["equal", "different", "not checked"]
"""What a comparison with the batch oracle has shown."""
ENGINE = "engine"
"""The parameter that names the engine; all others are free."""


@dataclass(frozen=True)
class Task:
    """A step of a flow: what some nodes do, or the coordinator if there are none.

    Arguments are plain data; a list of tasks among them is a tuple of `Task`. With `parallel` the next task begins at
    once; without `ack` nobody waits for its end.
    """

    name: str
    nodes: tuple[int, ...] = ()
    arguments: tuple[Any, ...] = ()
    parallel: bool = False
    ack: bool = True
    where: str = ""


@dataclass(frozen=True)
class TaskFlow:
    """Tasks in order. An argument that is the name of a parameter stands for its value."""

    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class WorkloadRun:
    """A workload of the catalog on an engine: parameters are fields of `WorkloadTrial`, `set.NAME` and `conf.NAME`."""

    workload: str


@dataclass(frozen=True)
class MeasureFunction:
    """A function in a Python file beside the experiment's: parameters in, an `TrialOutcome` out."""

    file: str
    function: str


Subject = TaskFlow | WorkloadRun | MeasureFunction


@dataclass(frozen=True)
class FigureSpec:
    """A figure of an experiment: one metric of every point along a parameter, or a series of every point.

    A series is drawn over its first column, time in seconds unless `x` says what else it is. A stack has one bar for
    every point, of all metrics whose names begin with `y` and a dot, one after another.
    """

    type: FigureType
    y: str
    x: str = ""
    by: str = ""
    title: str = ""


@dataclass(frozen=True)
class Experiment:
    """What is run and how it is compared; the first point is the baseline."""

    name: str
    subject: Subject
    points: tuple[Parameters, ...] = ({},)
    id: int | None = None
    title: str = ""
    repeat: int = 1
    answers: Answers = "same"
    metrics: tuple[str, ...] = ()
    """The metrics to show, in this order; none: all."""
    figures: tuple[FigureSpec, ...] = ()
    timeout_s: float = TIMEOUT_S
    """A trial that takes longer is ended, and has failed."""
    where: str = ""

    def trials(self, file: str, *, small: bool = False) -> Iterator["Trial"]:
        """All trials: the points in turn, again and again, so that a slow minute of the machine meets all of them."""
        for repetition in range(self.repeat):
            for point in self.points:
                yield Trial(file, self.name, dict(point), repetition, small=small)


@dataclass(frozen=True)
class Trial:
    """One run of one point: everything its process has to know, as plain data."""

    file: str
    experiment: str
    parameters: Parameters
    repetition: int = 0
    small: bool = False

    @property
    def key(self) -> str:
        """The name of the point's directory: parameters in order of their names; other points have other names.

        >>> Trial("f.yaml", "e", {"query": "a/b"}).key
        'query=a_b~d721'
        """
        whole = "+".join(f"{name}={value}" for name, value in sorted(self.parameters.items())) or "all"
        name = re.sub(r"[^\w.=+-]", "_", whole)[:KEY_CHARACTERS]
        return name if name == whole else f"{name}~{hashlib.sha256(whole.encode()).hexdigest()[:4]}"


@dataclass(frozen=True)
class TrialOutcome:
    """What a trial has measured; one that failed has a reason and no metrics.

    `metrics`: numbers by name, such as `events_per_s` or `latency_ms.p99`. `answers`: the digest of each table of
    results; points whose answers differ are not compared. `series`: rows of numbers over time, by name. `trace`: what
    happened at the nodes of a flow, a line for each record: node, tracepoint, first and last nanosecond, arguments.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
    oracle: OracleVerdict = "not checked"
    series: Mapping[str, list[list[float]]] = field(default_factory=dict)
    failure: str = ""
    unsupported: str = ""
    """Why its engine cannot run its query, as the file declares; then nothing was run."""
    trace: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeclaredQuery:
    """A query of a file: SQL for each engine that can run it, or a graph of operators that all of ours can."""

    id: int
    name: str
    output: int | None
    sql: Mapping[str, str]
    graph: Query | None
    needs: tuple[int, ...] = ()
    """Queries that are deployed with it, because it reads their output."""
    where: str = ""
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Engines that cannot run it, each with the reason."""
    operators: Mapping[str, str] = field(default_factory=dict)
    """The types of a graph's operators by name, as the file has them."""


@dataclass(frozen=True)
class NetworkSpec:
    """The links between nodes: bits per second and microseconds, for tuples and for state."""

    tuple_bits_per_s: float
    state_bits_per_s: float
    tuple_latency_us: float = 0.0
    state_latency_us: float = 0.0


@dataclass(frozen=True)
class PlotSpec:
    """What the original simulator was told to trace for a plot, as written."""

    name: str
    type: str
    values: Mapping[str, Scalar]


@dataclass(frozen=True)
class ExperimentFile:
    """All that a file declares, checked."""

    path: str
    name: str
    dialect: Dialect
    experiments: tuple[Experiment, ...]
    streams: Mapping[int, StreamDefinition] = field(default_factory=dict)
    datasets: Mapping[int, Dataset] = field(default_factory=dict)
    queries: Mapping[int, DeclaredQuery] = field(default_factory=dict)
    tracepoints: Mapping[int, str] = field(default_factory=dict)
    plots: tuple[PlotSpec, ...] = ()
    network: NetworkSpec | None = None
    dialect_reason: str = ""
