"""Event times of what a flow sends: a dataset that is sent again begins with times that were there before.

The original simulator takes rows in the order in which they come. Here rows behind the watermark would be late, so the
watermark of a stream stays back by as much as its times go back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.experiments.coordination.flow_run import TASK_LISTS, repeated
from shoal.experiments.coordination.nodes.dataset_rows import DatasetRows
from shoal.experiments.coordination.nodes.pacing import SENDS
from shoal.experiments.experiment import Task
from shoal.model.query.graph import Operator, OperatorId, Query


def backward_us(tasks: Sequence[Task], dataset: Callable[[int], DatasetRows]) -> dict[str, int]:
    """By how much the times of every stream go back at most, in the order in which tasks send its rows."""
    newest: dict[str, int] = {}
    found: dict[str, int] = {}
    for task in _sends(tasks):
        rows = dataset(task.arguments[0])
        if task.name.endswith("SpecificStream"):
            rows = rows.of_stream(*task.arguments[1:])
        for number, table in rows.tables.items():
            stream = rows.streams[number]
            if not stream.time or not table.num_rows:
                continue
            column = pc.drop_null(table.column(stream.time).combine_chunks().cast(pa.timestamp("us")).view(pa.int64()))
            at_us = column.to_numpy(zero_copy_only=False)
            before = np.maximum.accumulate(np.concatenate([[newest.get(stream.name, at_us[0])], at_us]))
            found[stream.name] = max(found.get(stream.name, 0), int((before[1:] - at_us).max()))
            newest[stream.name] = int(before[-1])
    return {name: us for name, us in found.items() if us}


def _sends(tasks: Sequence[Task]) -> Iterator[Task]:
    """The tasks that send rows, in order; what is done several times is listed twice, which shows all there is."""
    for task in tasks:
        if task.name in TASK_LISTS:
            inner, times = repeated(task)
            for _ in range(min(2, times)):
                yield from _sends(inner)
        elif task.name in SENDS:
            again = task.name == "sendDsAsStream" and task.arguments[1] > 1
            yield from (task, task) if again else (task,)


def with_lateness(query: Query, lateness_us: Mapping[str, int]) -> Query:
    """The same query over streams whose watermarks stay back by at least so much."""
    new: dict[OperatorId, OperatorId] = {}
    operators = []
    for operator in query.operators:
        parameters = dict(operator.parameters)
        if operator.kind == "source":
            us = lateness_us.get(str(parameters["stream"]), 0)
            parameters["lateness_us"] = max(us, int(parameters.get("lateness_us", 0)))
        made = Operator(operator.kind, parameters, tuple(new[each] for each in operator.inputs))
        new[operator.id] = made.id
        operators.append(made)
    return Query(query.name, tuple(operators))
