"""User-defined utilities of fragments: those of the queries that an instance works for."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.compiler.lane import Lane
from shoal.kernels.columns.block import Block, Column
from shoal.kernels.columns.nullable import valid_of, values_of
from shoal.kernels.expression.evaluate import evaluate
from shoal.kernels.kernel import State
from shoal.kernels.worth import NOTHING_LEARNED, Learned
from shoal.language.python.utility import keys_of
from shoal.model.control.fragment import Fragments
from shoal.model.query.expression import Expression, from_data
from shoal.model.query.graph import STATEFUL, Graph, OperatorId

Floats = NDArray[np.float64]


def with_utilities(lanes: Sequence[Lane], graph: Graph) -> tuple[Lane, ...]:
    """Lanes with the utilities that queries define; an operator of several queries is worth the sum of theirs."""
    asked: dict[OperatorId, list[Expression]] = {}
    for query in graph.queries.values():
        if "utility" in query.sink.parameters:
            expression = from_data(query.sink.parameters["utility"])
            for operator in query.operators:
                if operator.kind in STATEFUL and set(expression.columns()) <= keys_of(operator).keys():
                    asked.setdefault(operator.id, []).append(expression)
    if not asked:
        return tuple(lanes)
    total = {id_: reduce(lambda one, other: one + other, each) for id_, each in asked.items()}
    return tuple(_with_utilities(lane, total) for lane in lanes)


def _with_utilities(lane: Lane, total: dict[OperatorId, Expression]) -> Lane:
    found = tuple(total.get(OperatorId(instance.partition("/")[0])) for instance in lane.instances)
    asked = lane.kernel is not None and any(each is not None for each in found)
    return replace(lane, utilities=found) if asked else lane


def fragments_of(
    lane: Lane, state: State, learned: Learned = NOTHING_LEARNED, declared: NDArray[np.int64] | None = None
) -> Fragments:
    """The fragments of a lane's state, with the utility that queries define for them instead of the kernel's.

    A utility that is null, negative or not a number counts as 0. It is that of a key; the kernel says how fragments of
    one key share it. `declared`: the declared instance of every number in
    the state, if it has others than those of the lane.
    """
    if lane.kernel is None:
        raise TypeError("a lane without a kernel has no state")
    fragments = lane.kernel.fragments(state, learned)
    if not lane.utilities or not len(fragments):
        return fragments
    utility, place = fragments.utility.copy(), np.argsort(fragments.ids)
    for number, table in state.tables.items():
        if not len(table):
            continue
        rows = place[np.searchsorted(fragments.ids, lane.kernel.row_ids(number, table), sorter=place)]
        columns = dict(zip(lane.kernel.keys(0), lane.kernel.table_keys(number, table), strict=True))
        numbers = table.instance if declared is None else declared[table.instance]
        block = Block({**columns, **_constant(lane, numbers)}, len(table))
        shares = lane.kernel.worth_shares(number, state)
        for expression in {id(each): each for each in lane.utilities if each is not None}.values():
            ours = np.array([each is expression for each in lane.utilities])[numbers]
            if ours.any():
                utility[rows[ours]] = (_values(expression, block) * shares)[ours]
    return replace(fragments, utility=utility)


def _constant(lane: Lane, instance: NDArray[np.int64]) -> dict[str, Column]:
    """The key that every instance has one value of, which is not in the state."""
    if not lane.constant_key:
        return {}
    declared = instance if lane.division is None else lane.division.declared[instance]
    values = pa.array(lane.constants).take(pa.array(declared))
    return {lane.constant_key: values if isinstance(lane.constants[0], str) else values.to_numpy()}


def _values(expression: Expression, block: Block) -> Floats:
    column = evaluate(expression, block)
    valid = valid_of(column)
    values = np.asarray(values_of(column), np.float64)
    usable = np.isfinite(values) & (values > 0)
    return np.where(usable if valid is None else usable & valid, values, 0.0)
