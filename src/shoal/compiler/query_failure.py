"""Failures: which step or operator of which queries failed, and on which row.

Nothing here runs unless something has failed. The steps are then applied once more to the same rows, one by one and to
ever fewer rows, which is why user functions must be pure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from shoal.compiler.lane import Feed, Lane, Origin, Outlet
from shoal.compiler.program import Program
from shoal.compiler.steps import Step
from shoal.errors import FunctionError, QueryError, RunError, ShoalError
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.nullable import Nullable
from shoal.kernels.expression.failing import failing_range, raised, shown

MOST_NAMES = 5
"""Queries that a message names; the others are only counted."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def lane_queries(program: Program, lane: Lane) -> tuple[str, ...]:
    """The queries that need a lane, directly or through lanes behind it, in the graph's order."""
    return _ordered(program, _behind(program, [lane]))


def step_queries(program: Program, origin: Origin, texts: Sequence[str]) -> tuple[str, ...]:
    """The queries that need the last of some steps behind a stream or a lane; `texts` are those of the steps."""
    wanted = tuple(texts)
    readers = [
        lane
        for lane, feed in program.feeds.get(origin, ())
        if tuple(step.text for step in feed.steps[: len(wanted)]) == wanted
    ]
    return _ordered(program, _behind(program, readers))


def _behind(program: Program, lanes: Iterable[Lane]) -> set[str]:
    found: set[str] = set()
    known: set[int] = set()
    waiting = list(lanes)
    while waiting:
        lane = waiting.pop()
        if lane.number not in known:
            known.add(lane.number)
            found.update(name for outlet in lane.outlets for name in outlet.query_of if name is not None)
            waiting += [reader for reader, _ in program.feeds.get(lane.number, ())]
    return found


def _ordered(program: Program, names: set[str]) -> tuple[str, ...]:
    return tuple(name for name in program.graph.queries if name in names)


def is_of_query(error: BaseException) -> bool:
    """Whether an error says that a query fails on its input; others say that the run cannot go on at all."""
    if isinstance(error, QueryError | MemoryError):
        return False
    return isinstance(error, RunError) or (isinstance(error, Exception) and not isinstance(error, ShoalError))


def feed_failure(program: Program, lane: Lane, feed: Feed, block: Block, error: Exception) -> Exception:
    """The error of a lane that failed on a block of one of its feeds."""
    return steps_failure(program, feed.origin, (), feed.steps, block, error) or lane_failure(
        program, lane, error, _after(feed.steps, block), _lift(lane, feed.port)
    )


def _lift(lane: Lane, port: int) -> Callable[[Block], object]:
    return lambda rows: None if lane.kernel is None else lane.kernel.lift(port, rows)


def _after(steps: Sequence[Step], block: Block) -> Block:
    for step in steps:
        block = step.apply(block)
    return block


def steps_failure(
    program: Program, origin: Origin, before: Sequence[str], steps: Sequence[Step], block: Block, error: Exception
) -> Exception | None:
    """The error of steps that failed on a block; None if none of them fails again.

    `before`: the texts of the steps that the block has already passed.
    """
    if not is_of_query(error):
        return error
    texts = list(before)
    for step in steps:
        texts.append(step.text)
        try:
            after = step.apply(block)
        except Exception as again:  # noqa: BLE001  (whatever fails is reported)
            return query_error(step_queries(program, origin, texts), again, block, step.apply, _types(program, origin))
        block = after
    return None


def lane_failure(
    program: Program,
    lane: Lane,
    error: Exception,
    block: Block | None = None,
    attempt: Callable[[Block], object] | None = None,
) -> Exception:
    """The error of a lane whose kernel failed, with a row if it failed on a block."""
    types = dict(pair for port in lane.types for pair in port)
    return query_error(lane_queries(program, lane), error, block, attempt, types)


def outlet_failure(program: Program, outlet: Outlet, block: Block, error: Exception) -> Exception:
    """The error of the steps between a lane and a result table."""
    queries = _ordered(program, {name for name in outlet.query_of if name is not None})
    return query_error(queries, error, block, outlet.rows, {})


def query_error(
    queries: tuple[str, ...],
    error: Exception,
    block: Block | None = None,
    attempt: Callable[[Block], object] | None = None,
    types: Mapping[str, str] | None = None,
) -> Exception:
    """The error of queries that failed; with a block and the computation that failed, also a row that shows it."""
    if not is_of_query(error) or not queries:
        return error
    reason = str(error) if isinstance(error, RunError) else raised(error)
    row = ""
    if block is not None and block.length and attempt is not None:
        row = _failing_row(block, attempt, types or {})
    if not row and isinstance(error, FunctionError) and error.sample:
        reason = f"{reason}, called with {error.sample}"
    return QueryError(failure_text(queries, reason, row), queries, reason, row)


def raise_instead(found: Exception, error: Exception) -> NoReturn:
    """Raise the error that was found for another, which becomes its cause."""
    if found is error:
        raise error
    raise found from error


def failure_text(queries: Sequence[str], reason: str, row: str) -> str:
    """What failed, as one sentence.

    >>> failure_text(["a"], "function 'f' raised ZeroDivisionError: division by zero", "k=0")
    "query 'a' failed: function 'f' raised ZeroDivisionError: division by zero; row: k=0"
    """
    names = ", ".join(map(repr, queries[:MOST_NAMES]))
    more = f" and {len(queries) - MOST_NAMES:,} more" if len(queries) > MOST_NAMES else ""
    subject = f"query {names}" if len(queries) == 1 else f"queries {names}{more}, which share what failed,"
    return f"{subject} failed: {reason}" + (f"; row: {row}" if row else "")


def _failing_row(block: Block, attempt: Callable[[Block], object], types: Mapping[str, str]) -> str:
    """A row that fails alone, or the first of the fewest rows that fail together."""
    start, stop = failing_range(lambda low, high: attempt(block.take(np.arange(low, high))), block.length)
    row = block.take(np.array([start]))
    values = ", ".join(
        f"{name}={_value(column, types.get(name, ''))}"
        for name, column in row.columns.items()
        if not name.startswith("#")
    )
    if stop - start > 1 and values:
        return f"{values} (the first of {stop - start:,} rows, none of which fails alone)"
    return values


def _value(column: Any, type_: str) -> str:
    value = column.to_pylist()[0] if isinstance(column, pa.Array | Nullable) else column[0].item()
    if type_ == "timestamp" and isinstance(value, int):
        try:
            return (EPOCH + timedelta(microseconds=value)).isoformat().replace("+00:00", "Z")
        except OverflowError:
            return f"{value} us"
    return shown(value)


def _types(program: Program, origin: Origin) -> Mapping[str, str]:
    if not isinstance(origin, str):
        return {}
    schema = program.inputs[origin].schema
    return {name: schema.type_of(name) for name in schema.names}
