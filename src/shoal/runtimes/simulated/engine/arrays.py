"""The arrays of the core: records of tasks, units, workers and all else that its compiled functions work on.

- A *task* is an operator, or a chain of operators, of one instance. A *unit* is what is bound to a worker: the tasks of
  one instance. Sources are tasks too, each a unit of its own.
- A *step* is one arrival of events of a source. A *cell* is the part of a task in a step.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NONE = -1
INACTIVE, DONE = -1, -2
"""Of a cell: nothing to do, or done; otherwise `missing` is the number of inputs that have not come."""
WAITING, QUEUED, RUNNING = range(3)
"""States of a task."""
EVENT_TIME, FIRST_COME, TURN_BY_TURN, PRIORITY = range(4)
"""Orders of a queue: by the step's arrival, by when a task became ready, by its last turn, by its priority."""
WORKER_QUEUE, NODE_QUEUE, SINGLE_QUEUE = range(3)
"""Which workers share a queue."""
FINISH, POLL, FLOW, ARRIVE, MOVED, LINK, HOST, START = range(8)
"""Events: a turn ends, a source is polled, a flow ends, bytes arrive, a move ends, a link or host goes or returns, and
a worker that was woken up, or is between two turns, takes the next one."""
INPUT, STATE = range(2)
"""What a flow carries: the input of a task, or the state of a unit."""

AGENDA, FLOWS, WAKES, RESULTS, MOVES, TRACE = range(6)
"""Arrays that grow when they are full."""

_I, _F = np.int64, np.float64
TASK = np.dtype(
    [
        ("unit", _I),
        ("group", _I),
        ("source", _I),
        ("fixed_s", _F),
        ("out_start", _I),
        ("out_stop", _I),
        ("in_start", _I),
        ("in_stop", _I),
        ("next", _I),
        ("end", _I),
        ("status", _I),
        ("last_node", _I),
        ("received", _I),
        ("processed", _I),
        ("results", _I),
        ("occasions", _I),
        ("busy_s", _F),
        ("last_run_s", _F),
        ("later_s", _F),
        ("rank", _F),
        ("key", _F),
        ("place", _I),
        ("number", _I),
        ("child", _I),
        ("sibling", _I),
        ("before", _I),
    ]
)
"""`fixed_s` is paid by a turn that follows one of another group or step; the last six belong to the queues.
`later_s` is added to the arrival of its steps, where the queue is in that order."""
UNIT = np.dtype(
    [
        ("start", _I),
        ("stop", _I),
        ("owner", _I),
        ("target", _I),
        ("frozen", _I),
        ("at_work", _I),
        ("state_bytes", _F),
        ("frozen_s", _F),
        ("extra_s", _F),
    ]
)
WORKER = np.dtype(
    [
        ("host", _I),
        ("node", _I),
        ("task", _I),
        ("up", _I),
        ("in_use", _I),
        ("version", _I),
        ("last_group", _I),
        ("last_step", _I),
        ("first_result", _I),
        ("part_s", _F),
        ("starting", _I),
        ("draws", _I),
        ("free_s", _F),
        ("began_s", _F),
        ("worked_s", _F),
        ("moving_s", _F),
        ("access_s", _F),
    ]
)
"""`first_result`: how many results were recorded when the turns of its last group and step began; `part_s`: their
work. `starting`: whether it has no task and will take one at a `START`; `draws`: the state of its random numbers."""
HOST_STATE = np.dtype(
    [
        ("speed", _F),
        ("busy", _I),
        ("active", _I),
        ("down", _I),
        ("up_link", _I),
        ("down_link", _I),
        ("first_worker", _I),
        ("workers", _I),
        ("first_node", _I),
        ("nodes", _I),
    ]
)
"""`busy`: workers in a turn; `active`: those and the ones that are starting. `down`: how many reasons it has to be
down. Workers and memory nodes of a host have numbers in a row."""
SOURCE = np.dtype([("task", _I), ("blocked", _I), ("ended", _I), ("polled", _I), ("due", _I)])
QUEUE = np.dtype([("root", _I), ("free_s", _F)])
"""The first task, and the time from which another worker can access it."""
STEP = np.dtype([("arrival_s", _F), ("left", _I), ("rows", _I), ("source", _I)])
CELL = np.dtype(
    [
        ("work_s", _F),
        ("once_s", np.float32),
        ("varied", np.float32),
        ("bytes", np.float32),
        ("events", np.int32),
        ("results", np.int32),
        ("occasions", np.int32),
        ("place", np.int32),
        ("ends", np.int32),
        ("missing", np.int32),
        ("ran_on", np.int32),
        ("implied", np.int32),
    ]
)
"""`work_s` adds up over the steps of a turn; of `once_s` a turn pays the largest. `varied`: factor of a fixed part;
a turn has the first one above 0, or that of its first step, which is negative if this brings only a watermark.
`place`: of equally old tasks in a queue by event time, those with the smallest come first.
`ends`: whether a turn takes no step after it."""
LINK_STATE = np.dtype(
    [
        ("bytes_per_s", _F),
        ("latency_s", _F),
        ("segment", _F),
        ("overhead", _F),
        ("carried", _F),
        ("head", _I),
        ("flows", _I),
        ("dirty", _I),
        ("down", _I),
    ]
)
FLOW_STATE = np.dtype(
    [
        ("size", _F),
        ("left", _F),
        ("rate", _F),
        ("since_s", _F),
        ("latency_s", _F),
        ("version", _I),
        ("what", _I),
        ("first", _I),
        ("second", _I),
        ("target", _I),
        ("free", _I),
    ]
)
RESULT = np.dtype(
    [("task", _I), ("step", _I), ("worker", _I), ("results", _I), ("others", _I), ("at_s", _F), ("latency_s", _F)]
)
"""`others`: the busy workers of the host when the results were made, without the one that made them."""
TRACED = np.dtype(
    [("task", _I), ("worker", _I), ("step", _I), ("begins", _I), ("began_s", _F), ("ended_s", _F), ("work_s", _F)]
)
"""A turn that was traced. `step`: its first one; `begins`: whether it pays the fixed part of a turn; `work_s`: what it
would take on an idle machine."""
MOVE = np.dtype([("unit", _I), ("source", _I), ("target", _I), ("bytes", _F), ("frozen_s", _F)])
TURN = np.dtype([("task", _I), ("worker", _I)])
CORE = np.dtype(
    [
        ("now_s", _F),
        ("remote_byte_s", _F),
        ("hand_over_s", _F),
        ("copy_byte_s", _F),
        ("long_s", _F),
        ("remote_bytes", _F),
        ("access_s", _F),
        ("moving_s", _F),
        ("base", _I),
        ("fed", _I),
        ("in_flight", _I),
        ("most_rows", _I),
        ("live", _I),
        ("idle", _I),
        ("design", _I),
        ("order", _I),
        ("turn_steps", _I),
        ("by_turn", _I),
        ("full", _I),
        ("results", _I),
        ("moves", _I),
        ("turns", _I),
        ("wakes", _I),
        ("agenda", _I),
        ("agenda_number", _I),
        ("queue_number", _I),
        ("free_flow", _I),
        ("flows", _I),
        ("dirty", _I),
        ("hops", _I),
        ("traces", _I),
        ("trace", _I),
    ]
)
"""`in_flight`: rows of steps that are not done, at most `most_rows`; `idle`: workers that are up and have no task;
`moving_s`: what workers have worked for moves; `hops`: the most links of a route; `by_turn`: results of a turn count
from the oldest of its steps, and leave when the worker's turns of that group and step are over; `long_s`: beyond so
much work these turns have factors of their own; `traces`: whether turns are traced, `trace`: how many have been."""


class World(NamedTuple):
    """All arrays; `core` has one record, `agenda_rows` has (number, kind, first, second) of the future events.

    `crowd` and `turn_crowd` are factors of the work and of the fixed part of a turn by the number of other active
    workers, `long_crowd` of the work beyond `long_s`. `wake_ups` and `pauses` are random seconds until an idle worker
    takes a task, and between two turns of a busy one, a row for each number of other active workers.
    """

    core: NDArray[Any]
    tasks: NDArray[Any]
    units: NDArray[Any]
    unit_tasks: NDArray[np.int64]
    workers: NDArray[Any]
    hosts: NDArray[Any]
    node_host: NDArray[np.int64]
    sources: NDArray[Any]
    outputs: NDArray[np.int64]
    inputs: NDArray[np.int64]
    steps: NDArray[Any]
    cells: NDArray[Any]
    queues: NDArray[Any]
    agenda_times: NDArray[np.float64]
    agenda_rows: NDArray[np.int64]
    links: NDArray[Any]
    dirty: NDArray[np.int64]
    flows: NDArray[Any]
    hops: NDArray[np.int64]
    after: NDArray[np.int64]
    before: NDArray[np.int64]
    route_start: NDArray[np.int64]
    route_link: NDArray[np.int64]
    crowd: NDArray[np.float64]
    results: NDArray[Any]
    moves: NDArray[Any]
    turns: NDArray[Any]
    wakes: NDArray[np.int64]
    turn_crowd: NDArray[np.float64]
    wake_ups: NDArray[np.float64]
    trace: NDArray[Any]
    long_crowd: NDArray[np.float64]
    pauses: NDArray[np.float64]
