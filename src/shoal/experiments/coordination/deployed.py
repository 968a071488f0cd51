"""Deployed queries as the job of an engine."""

from collections.abc import Sequence

from shoal.experiments.engines.contract import EngineJob, EngineQuery
from shoal.experiments.experiment import ExperimentFile


def engine_job(file: ExperimentFile, numbers: Sequence[int], languages: Sequence[str]) -> EngineJob:
    """Queries by number, those that they need first, each with its text in the first language that it has.

    A query without any has neither a text nor a graph. Streams that queries make are not among the input.
    """
    wanted: dict[int, None] = {}
    for number in numbers:
        wanted |= dict.fromkeys(file.queries[number].needs)
    found = []
    for number in (*wanted, *numbers):
        query = file.queries[number]
        output = file.streams[query.output].name if query.output is not None else ""
        text = next((query.sql[each] for each in languages if each in query.sql), "")
        table = query.graph.table if query.graph is not None else "results"
        found.append(EngineQuery(query.name, output or table, text, query.graph))
    outputs = {each.output for each in found}
    return EngineJob({each.name: each for each in file.streams.values() if each.name not in outputs}, tuple(found))
