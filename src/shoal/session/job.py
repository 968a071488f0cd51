"""Jobs: queries and the sources of their streams."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.errors import GraphError
from shoal.model.query.graph import Graph, Query, shortened


@dataclass(frozen=True)
class Job:
    """What to run: a name, a graph and a source for every stream in it.

    A source is one of `shoal.connectors` or, on Spark, your own streaming DataFrame.
    """

    name: str
    graph: Graph
    sources: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """The name, and the first queries."""
        return f"Job({self.name!r}, {shortened(self.graph.queries, 'queries')})"

    def __post_init__(self) -> None:
        """Reject a job without queries, or with a stream that has no source."""
        if not self.graph.queries:
            raise GraphError(f"job {self.name!r} has no queries")
        missing = sorted(set(self.graph.streams) - set(self.sources))
        if missing:
            raise GraphError(
                f"job {self.name!r} has no source for stream {', '.join(missing)}; "
                f"there are sources for {', '.join(self.sources) or 'none'}"
            )

    @classmethod
    def of(cls, name: str, queries: Iterable[Query], sources: Mapping[str, Any]) -> "Job":
        """A job from queries, which are merged into one graph."""
        return cls(name, Graph.of(queries), sources)
