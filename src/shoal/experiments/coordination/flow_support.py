"""Which tasks of a flow can be carried out, known before anything starts."""

from collections.abc import Iterator

from shoal.experiments.coordination.flow_run import TASK_LISTS
from shoal.experiments.coordination.nodes.node_tasks import NODE_TASKS
from shoal.experiments.experiment import TaskFlow
from shoal.experiments.language.task_check import every_task

COORDINATOR_TASKS = (*TASK_LISTS, "wait", "addSchemas", "setNidToAddress", "startExperiment", "endExperiment")
BROADCAST = ("enableTrace", "disableTrace", "addTpIds")
"""Tasks that the coordinator gives to all nodes."""


def refused_tasks(flow: TaskFlow, engine: str) -> Iterator[str]:
    """What a flow asks for that an engine cannot do, one line for each task."""
    for task in every_task(flow.tasks):
        able = task.name in (*NODE_TASKS, *TASK_LISTS) if task.nodes else task.name in (*COORDINATOR_TASKS, *BROADCAST)
        if not able:
            known = ", ".join(sorted({*NODE_TASKS, *COORDINATOR_TASKS} - {"finish"}))
            yield f"{task.where}: task {task.name} cannot be done with engine {engine}; there are {known}"
