"""The report on shed input: how much of which stream, when, and what that does to the results of every query."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.control.journal import SheddingBegun
from shoal.errors import ConfigError
from shoal.language.python.flow import QUERY
from shoal.model.control.shed_hashes import shed_spans
from shoal.model.control.shedding import BEGINNING_US, ShedCount, Shedding, StreamShedding
from shoal.model.query.graph import Graph
from shoal.session.shedding.bounds import WINDOW_END, QueryBounds, bounds
from shoal.session.shedding.estimates import Estimate, Shares, estimate
from shoal.session.shedding.load_shedding import LoadShedding
from shoal.session.summary import Tally

SEARCHED_TIMES = 1_000_000
LISTED_TIMES = 100
"""Missing times that a report lists; all are counted."""


@dataclass(frozen=True, eq=False)
class ShedReport:
    """What was shed in a run; `tables` holds the results, by name, as far as they can be read back."""

    shedding: Shedding
    graph: Graph
    events: int
    counts: Mapping[str, ShedCount]
    streams: Mapping[str, StreamShedding]
    entries: Sequence[Any]
    tables: Mapping[str, pa.Table]

    @classmethod
    def of(
        cls, tally: Tally, graph: Graph, load_shedding: LoadShedding | None, tables: Mapping[str, pa.Table]
    ) -> "ShedReport":
        """The report of a run; one that does not shed may have been resumed from one that did."""
        asked = _last_asked(tally.shedding) if load_shedding is None else load_shedding.shedding
        entries = () if load_shedding is None else load_shedding.entries
        return cls(asked, graph, tally.events, tally.shed, tally.shedding, entries, tables)

    @cached_property
    def _bounds(self) -> list[QueryBounds]:
        """The bounds of all queries; none if earlier runs have shed in another way."""
        found = bounds(self.shedding, self.graph)
        kinds = {self.shedding.kind, *(each.rule.kind for state in self.streams.values() for each in state.ranges)}
        if len(kinds) == 1:
            return found
        reason = f"input was shed in several ways: {', '.join(sorted(kinds))}"
        return [QueryBounds(each.query, each.table, each.streams, reason=reason) for each in found]

    @property
    def rows(self) -> int:
        """All rows that were shed."""
        return sum(count.rows for count in self.counts.values())

    def estimates(self, query: str) -> pa.Table:
        """The results of a query with more columns: estimates of all input, and the ends of 95 % intervals.

        For every column that has intervals there are three: `NAME_estimate`, `NAME_low` and `NAME_high`. They are null
        where input was shed for a part of the window only, but for the bounds of counts.
        """
        of_query = next(each for each in self._bounds if each.query == query)
        table = self._results(of_query, [query])
        for column, made in self._made(of_query, table):
            for name, values in zip(("estimate", "low", "high"), (made.value, made.low, made.high), strict=True):
                table = table.append_column(f"{column}_{name}", pa.array(values, from_pandas=True))
        return table

    def data(self) -> dict[str, Any]:
        """The report as `--json` prints it."""
        return {
            "shedding": self.shedding.text,
            "when": self.shedding.when,
            "above_ms": self.shedding.above_s * 1000,
            "rows": self.rows,
            "share": round(self.rows / max(1, self.events), 6),
            "streams": [self._stream(stream) for stream in self.streams],
            "times": [{"began": isinstance(each, SheddingBegun), **asdict(each)} for each in self.entries],
            "queries": [self._group(group) for group in self._groups()],
        }

    def _stream(self, stream: str) -> dict[str, Any]:
        count, state = self.counts.get(stream, ShedCount()), self.streams[stream]
        found: dict[str, Any] = {"stream": stream, "rows": count.rows, "ranges": len(state.ranges)}
        if self.shedding.kind == "utility":
            kept = 1 - count.utility / count.utility_read if count.utility_read else 1.0
            found["utility_kept"] = round(kept, 6)
        if self.shedding.kind == "windows":
            missing = self.missing_times(stream)
            found["times_missing"] = len(missing)
            found["span_s"] = max((each.rule.span_us for each in state.ranges), default=0) / 1e6
            found["missing"] = [_iso(start_us) for start_us in missing[:LISTED_TIMES]]
        return found

    def missing_times(self, stream: str) -> list[int]:
        """The beginnings, in microseconds since 1970, of the times of which all rows were shed.

        Windows with a part in one of them have no result. Times that would have had no rows are among them. Of every
        range only the newest million are searched.
        """
        state = self.streams.get(stream, StreamShedding())
        first_us = self._first_us(stream)
        found: list[int] = []
        for each in state.ranges:
            if each.rule.span_us and state.newest_us != BEGINNING_US:
                span_us, reach_us = each.rule.span_us, self._reach_us(stream, each.rule.span_us)
                last_us = min(each.end_us - 1, state.newest_us + reach_us)
                begin_us = max(each.start_us, (first_us - reach_us) // span_us * span_us)
                found += shed_spans(each.rule, max(begin_us, last_us - SEARCHED_TIMES * span_us), last_us)
        return found

    def _reach_us(self, stream: str, span_us: int) -> int:
        """How far before or after its rows a window of a stream can have a part in a time that was shed."""
        read = [each for each in self._bounds if stream in each.streams and each.size_us]
        return max((each.size_us for each in read if each.overlaps or span_us % each.size_us), default=0)

    def _first_us(self, stream: str) -> int:
        """The first event time of a stream that was shed, or the beginning of the first window with results."""
        firsts = [self.counts.get(stream, ShedCount()).oldest_us]
        for each in self._bounds:
            table = self.tables.get(each.table)
            if stream in each.streams and each.placed and table is not None and table.num_rows:
                firsts.append(pc.min(table.column(WINDOW_END)).cast(pa.int64()).as_py() - each.size_us)
        return min(firsts)

    def _groups(self) -> list[list[QueryBounds]]:
        """Queries that differ in nothing but their names."""
        found: dict[QueryBounds, list[QueryBounds]] = {}
        for each in self._bounds:
            found.setdefault(replace(each, query=""), []).append(each)
        return list(found.values())

    def _group(self, group: Sequence[QueryBounds]) -> dict[str, Any]:
        first, names = group[0], [each.query for each in group]
        shed = any(self.streams[stream].ranges for stream in first.streams if stream in self.streams)
        found: dict[str, Any] = {"queries": names, "table": first.table, "exact": not shed}
        if not shed:
            return found
        found["reason"] = first.reason
        table = self._results(first, names)
        made = dict(self._made(first, table))
        found["results"] = table.num_rows
        found["columns"] = [
            {
                "column": each.column,
                "aggregate": each.text.partition(" = ")[2],
                "bound": each.bound,
                "reason": each.reason,
                **(_widths(made[each.column], table, each.column) if each.column in made else {}),
            }
            for each in first.columns
        ]
        return found

    def _results(self, query: QueryBounds, names: Sequence[str]) -> pa.Table:
        """The results of some queries of one table."""
        table = self.tables.get(query.table)
        if table is None:
            return pa.table({column: [] for column in (QUERY, *self.graph.queries[query.query].columns)})
        return table.filter(pc.is_in(table.column(QUERY), pa.array(names, pa.string())))

    def _made(self, query: QueryBounds, table: pa.Table) -> Iterator[tuple[str, Estimate]]:
        if table.num_rows:
            shares = Shares.of(table, query, self.streams)
            for each in query.columns:
                if each.bound == "interval":
                    yield each.column, estimate(table, each, shares)


def _last_asked(streams: Mapping[str, StreamShedding]) -> Shedding:
    """What was asked for when rows were shed last."""
    rules = [each.rule for state in streams.values() for each in state.ranges]
    if not rules:
        raise ConfigError("nothing is shed in this run; start it with shed=")
    return Shedding(rules[-1].kind, rules[-1].share, rules[-1].utility, seed=rules[-1].seed)  # type: ignore[arg-type]


def _widths(made: Estimate, table: pa.Table, column: str) -> dict[str, Any]:
    """How wide intervals are: half of each, as a share of its estimate; and how many results have which."""
    raw = pc.fill_null(table.column(column).cast(pa.float64()), float("nan")).to_numpy()
    exact = (made.low == made.high) & (made.low == raw)
    known = ~np.isnan(made.value) & ~np.isnan(made.low) & ~exact
    bounded = np.isnan(made.value) & ~np.isnan(made.low)
    half = (made.high - made.low)[known] / 2
    relative = half / np.maximum(np.abs(made.value[known]), np.finfo(float).tiny)
    return {
        "exact_results": int(exact.sum()),
        "interval_results": int(known.sum()),
        "bounded_results": int(bounded.sum()),
        "unknown_results": int(len(raw) - exact.sum() - known.sum() - bounded.sum()),
        "half_width_median": round(float(np.median(relative)), 6) if known.any() else None,
        "half_width_most": round(float(relative.max()), 6) if known.any() else None,
    }


def _iso(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat()
