"""Parked queries: those that failed and wait to be replaced while the others go on."""

from dataclasses import dataclass
from typing import Literal, get_args

from shoal.errors import ConfigError, GraphError
from shoal.model.query.graph import Graph, Query

OnQueryError = Literal["fail", "park"]
"""What a run does when a query fails: end with the error, or park the query and go on with the others."""
ON_QUERY_ERROR: tuple[str, ...] = get_args(OnQueryError)


def parks(on_query_error: str) -> bool:
    """Whether queries that fail are parked; an unknown value is rejected.

    >>> parks("park"), parks("fail")
    (True, False)
    """
    if on_query_error not in ON_QUERY_ERROR:
        raise ConfigError(f"on_query_error must be {' or '.join(ON_QUERY_ERROR)}; got {on_query_error!r}")
    return on_query_error == "park"


@dataclass(frozen=True)
class ParkedQuery:
    """A query that failed: why, on which row, and what it was, so that a repaired one can be told from it."""

    name: str
    reason: str
    row: str
    digest: str
    table: str
    columns: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, query: Query, reason: str, row: str) -> "ParkedQuery":
        """A query that failed for a reason."""
        return cls(query.name, reason, row, digest(query), query.table, tuple(query.columns.items()))

    def check_replacement(self, query: Query) -> None:
        """Reject a query that would write other columns to the table that this one has written."""
        if query.table == self.table and tuple(query.columns.items()) != self.columns:
            raise GraphError(
                f"query {query.name!r} must write table {query.table!r} with the columns that it has, "
                f"{', '.join(name for name, _ in self.columns)}; got {', '.join(query.columns)}; give it another table"
            )


def digest(query: Query) -> str:
    """A short text that two queries share only if they are the same, code included."""
    return Graph.of([query]).digest
