"""The tasks of flows: who does each, and with which arguments. Checks, documentation and JSON Schema all read this.

>>> TASKS["expose"]["wait"].usage, TASKS["dcep-sim"]["wait"].usage
('wait [time in ms]', 'wait [time in us]')
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from shoal.experiments.experiment import Dialect
from shoal.mechanisms.catalog import MECHANISMS


class ArgumentKind(StrEnum):
    """What an argument is, and the words in which messages say what it must be."""

    STREAM = "a stream"
    STREAMS = "a stream or a list of streams"
    NODE = "a node"
    NODES = "a node or a list of nodes"
    DATASET = "a dataset"
    QUERY = "a query"
    DEPLOYED = "a deployed query"
    MECHANISM = "a mechanism"
    COUNT = "a whole number, at least 0"
    POSITIVE = "a whole number, at least 1"
    RATE = "a positive number of rows per second"
    MILLISECONDS = "a number of milliseconds, or a text such as 2 s"
    MICROSECONDS = "a number of microseconds, or a text such as 2 s"
    PACE = "as-fast-as-possible, timestamps, or rows per second"
    TEXT = "a text"
    TEXTS = "a list of texts"
    OPERATOR = "an operator: its name or its type"
    TASKS = "a list of tasks"


REQUIRED: Any = object()
"""The default of an argument that must be given."""
FAST, BY_TIMESTAMPS = "as-fast-as-possible", "timestamps"
NO_MIGRATION = "no-migration"
"""Instead of a mechanism: the task does nothing, so that a flow can be compared with itself."""
MECHANISM_WORDS: Mapping[str, str] = {
    **{name: name for name in MECHANISMS},
    NO_MIGRATION: NO_MIGRATION,
    "drop-state": "drop",
    "moving-state": "all-at-once",
    "lazy": "lazy-latency",
    "utility": "lazy-utility",
}
"""Mechanisms as files name them, in our words."""
Doer = Literal["node", "coordinator", "either"]


@dataclass(frozen=True)
class TaskArgument:
    """An argument of a task."""

    name: str
    kind: ArgumentKind
    default: Any = REQUIRED

    @property
    def optional(self) -> bool:
        """Whether it may be left out."""
        return self.default is not REQUIRED


@dataclass(frozen=True)
class TaskSpec:
    """A task: what it does, who may do it and its arguments. With `repeats` the last one can be given many times.

    `automatic`: the coordinator does it by itself at the right time, so that a file need not.
    """

    name: str
    summary: str
    by: Doer = "node"
    arguments: tuple[TaskArgument, ...] = ()
    repeats: bool = False
    automatic: bool = False
    keys: tuple[str, ...] = field(default=())
    """Keys of its own beside those of all tasks."""

    @property
    def usage(self) -> str:
        """Name and arguments in one line; those in parentheses may be left out."""
        shown = [f"({each.name})" if each.optional else each.name for each in self.arguments]
        return f"{self.name} [{', '.join(shown)}{', ...' if self.repeats else ''}]"

    @property
    def fewest(self) -> int:
        """The number of arguments that must be given."""
        return sum(not each.optional for each in self.arguments)

    @property
    def most(self) -> int | None:
        """The number of arguments that can be given, or none if there is no limit."""
        return None if self.repeats else len(self.arguments)

    def argument(self, index: int) -> TaskArgument:
        """The argument at a position."""
        return self.arguments[min(index, len(self.arguments) - 1)]


_QUERY, _DEPLOYED = TaskArgument("query", ArgumentKind.QUERY), TaskArgument("deployed query", ArgumentKind.DEPLOYED)
_STREAM, _STREAMS = TaskArgument("stream", ArgumentKind.STREAM), TaskArgument("streams", ArgumentKind.STREAMS)
_NODE, _NODES = TaskArgument("node", ArgumentKind.NODE), TaskArgument("nodes", ArgumentKind.NODES)
_DATASET, _MECHANISM = TaskArgument("dataset", ArgumentKind.DATASET), TaskArgument("mechanism", ArgumentKind.MECHANISM)
_ROWS, _RATE = TaskArgument("rows", ArgumentKind.POSITIVE), TaskArgument("rows per second", ArgumentKind.RATE)
_MS, _TASKS = TaskArgument("time in ms", ArgumentKind.MILLISECONDS), TaskArgument("tasks", ArgumentKind.TASKS)

_COMMON = (
    TaskSpec("addNextHop", "send a stream to nodes", arguments=(_STREAMS, _NODES)),
    TaskSpec("removeNextHop", "no longer send a stream to nodes", arguments=(_STREAMS, _NODES)),
    TaskSpec("startRuntimeEnv", "start the engine with the deployed queries"),
    TaskSpec("stopRuntimeEnv", "stop the engine"),
    TaskSpec(
        "setParallelism",
        "run queries by this many workers",
        arguments=(TaskArgument("workers", ArgumentKind.POSITIVE),),
    ),
    TaskSpec("clearQueries", "remove all queries"),
    TaskSpec(
        "sendDsAsStream",
        "send a dataset once or more, as fast as possible, by its timestamps or at a rate",
        arguments=(
            _DATASET,
            TaskArgument("times", ArgumentKind.POSITIVE, 1),
            TaskArgument("pace", ArgumentKind.PACE, FAST),
        ),
        keys=("realism",),
    ),
    TaskSpec("sendDsAsConstantStream", "send a dataset at a rate", arguments=(_DATASET, _RATE)),
    TaskSpec(
        "sendDsAsVariableOnOffStream",
        "send a dataset at a rate, a number of rows and then nothing for some time; that number rises from the least "
        "to the most by a step",
        arguments=(
            _DATASET,
            _RATE,
            TaskArgument("pause in ms", ArgumentKind.MILLISECONDS),
            TaskArgument("least rows", ArgumentKind.POSITIVE),
            TaskArgument("most rows", ArgumentKind.POSITIVE),
            TaskArgument("step", ArgumentKind.COUNT),
        ),
    ),
    TaskSpec("sendDsAsSpecificStream", "send a dataset as one stream", arguments=(_DATASET, _STREAM)),
    TaskSpec("sendNRowsDsAsSpecificStream", "send the first rows of a dataset", arguments=(_DATASET, _STREAM, _ROWS)),
    TaskSpec(
        "writeStreamToCsv",
        "write the rows of a stream to a file",
        arguments=(_STREAM, TaskArgument("file", ArgumentKind.TEXT)),
    ),
    TaskSpec("retEndOfStream", "wait until nothing has been received for some time", arguments=(_MS,)),
    TaskSpec("retWhenReceived", "wait until rows have been received", arguments=(_ROWS,)),
    TaskSpec("retReceivedXTuples", "wait until rows have been received", arguments=(_ROWS,)),
    TaskSpec(
        "retWhenProcessed",
        "wait until an operator of a query has processed rows",
        arguments=(_ROWS, _DEPLOYED, TaskArgument("operator", ArgumentKind.OPERATOR)),
    ),
    TaskSpec(
        "traceTuple",
        "write a tracepoint",
        arguments=(TaskArgument("tracepoint", ArgumentKind.COUNT), TaskArgument("arguments", ArgumentKind.TEXTS, ())),
    ),
    TaskSpec("enableTrace", "write tracepoints from now on", by="either"),
    TaskSpec("disableTrace", "write no more tracepoints", by="either"),
    TaskSpec("loopTasks", "do tasks several times", "coordinator", (TaskArgument("times", ArgumentKind.COUNT), _TASKS)),
    TaskSpec("runParallel", "do tasks at the same time, and wait for all", "coordinator", (_TASKS,)),
    TaskSpec("batchTasks", "give tasks to a node all at once", "either", (_TASKS,)),
    TaskSpec("addPotentialHost", "nodes that may run a query", "coordinator", arguments=(_NODES, _DEPLOYED)),
    TaskSpec("addSourceNode", "nodes that send the input of a query", "coordinator", arguments=(_NODES, _DEPLOYED)),
    TaskSpec("addSinkNode", "nodes that receive the results of a query", "coordinator", arguments=(_NODES, _DEPLOYED)),
    TaskSpec("adapt", "move a query to a node by a mechanism", "coordinator", (_DEPLOYED, _NODE, _MECHANISM)),
    TaskSpec(
        "migrate",
        "move a query, or one of its operators, from this node to another",
        arguments=(_NODE, _DEPLOYED, _MECHANISM, TaskArgument("operator", ArgumentKind.OPERATOR, "")),
    ),
    TaskSpec("bufferStream", "keep the rows of streams instead of processing or sending them", arguments=(_STREAMS,)),
    TaskSpec(
        "stopStream",
        "keep the rows of streams as bufferStream does, and tell a node that no more follow those before",
        arguments=(_STREAMS, TaskArgument("node to tell", ArgumentKind.NODE, 0)),
    ),
    TaskSpec("resumeStream", "go on with streams, kept rows first", arguments=(_STREAMS,)),
    TaskSpec(
        "relayStream",
        "send streams to other nodes than before",
        arguments=(
            _STREAMS,
            TaskArgument("old nodes", ArgumentKind.NODES),
            TaskArgument("new nodes", ArgumentKind.NODES),
        ),
    ),
    TaskSpec("moveQueryState", "send the state of a query to a node", arguments=(_DEPLOYED, _NODE)),
    TaskSpec("moveStaticQueryState", "send the state that no longer changes", arguments=(_DEPLOYED, _NODE)),
    TaskSpec("moveDynamicQueryState", "send the state that has changed since", arguments=(_DEPLOYED, _NODE)),
    TaskSpec("disconnectNode", "cut a node off after some time", arguments=(_MS,)),
    TaskSpec("addSchemas", "declare streams", "either", (TaskArgument("stream", ArgumentKind.STREAM, ()),), True, True),
    TaskSpec(
        "addTpIds",
        "make tracepoints active",
        "either",
        (TaskArgument("tracepoint", ArgumentKind.COUNT, ()),),
        True,
        True,
    ),
    TaskSpec("setNidToAddress", "say at which addresses nodes are", "either", automatic=True),
    TaskSpec("startExperiment", "begin", "either", automatic=True),
    TaskSpec("endExperiment", "end", "either", automatic=True),
)
_EXPOSE = (
    TaskSpec(
        "deployQueries",
        "deploy a query a number of times",
        arguments=(_QUERY, TaskArgument("times", ArgumentKind.POSITIVE, 1)),
    ),
    TaskSpec("wait", "wait", "either", (_MS,)),
)
_DCEP_SIM = (
    TaskSpec(
        "deployQueries",
        "deploy a query under a number of its own",
        "coordinator",
        (_QUERY, TaskArgument("new number", ArgumentKind.COUNT)),
    ),
    TaskSpec("wait", "wait", "either", (TaskArgument("time in us", ArgumentKind.MICROSECONDS),)),
)
TASKS: Mapping[Dialect, Mapping[str, TaskSpec]] = {
    "expose": {spec.name: spec for spec in (*_EXPOSE, *_COMMON)},
    "dcep-sim": {spec.name: spec for spec in (*_DCEP_SIM, *_COMMON)},
}
"""All tasks, in both dialects; only `wait` and `deployQueries` differ."""
