"""The expected results of the NEXMark queries, computed in batch by DuckDB, without any code of the runtimes.

Windows are aligned to the Unix epoch and hold their start but not their end. Every window with at least one event
has a result, also the incomplete ones at both ends. Bounds of a join in time are both inclusive.
"""

import duckdb
import pyarrow as pa

from shoal.errors import ConfigError

MICROSECONDS = 1_000_000
RATE = 0.908
"""Euros per dollar (Q1)."""
SELECTED = (1007, 1020, 2001, 2019, 2087)
"""Auctions whose bids are wanted (Q2)."""
CATEGORY = 10
STATES = ("OR", "ID", "CA")
"""Category of the auctions and states of the sellers that are suggested (Q3)."""
LAST_AUCTIONS = 10
"""How many auctions of a seller are averaged (Q6)."""

BID = {"ts": pa.timestamp("us"), "auction": pa.int64(), "bidder": pa.int64(), "price": pa.int64()}
END = {"window_end": pa.timestamp("us")}
SCHEMAS = {
    0: pa.schema(BID),
    1: pa.schema({**BID, "price": pa.float64()}),
    2: pa.schema({"ts": BID["ts"], "auction": pa.int64(), "price": pa.int64()}),
    3: pa.schema({"name": pa.string(), "city": pa.string(), "state": pa.string(), "id": pa.int64()}),
    4: pa.schema({"category": pa.int64(), **END, "avg_price": pa.float64()}),
    5: pa.schema({"auction": pa.int64(), **END, "bids": pa.int64()}),
    6: pa.schema({"seller": pa.int64(), "auction": pa.int64(), "avg_price": pa.float64()}),
    7: pa.schema({**BID, **END}),
    8: pa.schema({"id": pa.int64(), "name": pa.string(), **END}),
}

# The origin is given, as DuckDB's own is in the year 2000.
MACROS = """
CREATE TEMP MACRO end_of(ts, size_us) AS
    time_bucket(to_microseconds(size_us), ts, TIMESTAMP '1970-01-01') + to_microseconds(size_us)
"""
WINNING = """
WITH winning AS (
    SELECT auction.id, seller, category, end_of(expires, $window_us) AS window_end, max(bid.price) AS price
    FROM auction JOIN bid ON bid.auction = auction.id
    WHERE bid.ts BETWEEN auction.ts AND expires AND bid.price >= reserve
    GROUP BY ALL
)
"""
QUERIES = {
    0: "SELECT ts, auction, bidder, price FROM bid",
    1: "SELECT ts, auction, bidder, price::DOUBLE * $rate FROM bid",
    2: "SELECT ts, auction, price FROM bid WHERE list_contains($selected, auction)",
    3: """
        SELECT name, city, state, auction.id FROM auction JOIN person ON seller = person.id
        WHERE category = $category AND list_contains($states, state::VARCHAR)
        AND person.ts BETWEEN auction.ts - to_microseconds($within_us) AND auction.ts + to_microseconds($within_us)
    """,
    4: f"{WINNING} SELECT category, window_end, avg(price) FROM winning GROUP BY ALL",
    # A pane is one slide long, so it belongs to as many windows as slides fit into one.
    5: """
        WITH panes AS (SELECT auction, end_of(ts, $slide_us) AS pane_end, count(*) AS n FROM bid GROUP BY ALL),
        windows AS (
            SELECT auction, pane_end + to_microseconds(later * $slide_us) AS window_end, sum(n) AS bids
            FROM panes, range($window_us // $slide_us) AS ends(later) GROUP BY ALL
        )
        SELECT auction, window_end, bids FROM windows QUALIFY bids = max(bids) OVER (PARTITION BY window_end)
    """,
    6: f"""
        {WINNING} SELECT seller, id, avg(price) OVER (
            PARTITION BY seller ORDER BY window_end, id ROWS BETWEEN {LAST_AUCTIONS - 1} PRECEDING AND CURRENT ROW
        ) FROM winning
    """,
    7: """
        WITH highest AS (SELECT end_of(ts, $window_us) AS window_end, max(price) AS price FROM bid GROUP BY ALL)
        SELECT ts, auction, bidder, bid.price, window_end FROM bid JOIN highest
        ON window_end = end_of(ts, $window_us) AND highest.price = bid.price
    """,
    8: """
        SELECT DISTINCT person.id, name::VARCHAR, end_of(person.ts, $window_us) AS window_end
        FROM person JOIN auction ON seller = person.id
        AND end_of(auction.ts, $window_us) = end_of(person.ts, $window_us)
    """,
}


def expected(
    query_number: int,
    person: pa.Table,
    auction: pa.Table,
    bid: pa.Table,
    within_s: float,
    window_s: float,
    slide_s: float,
) -> dict[str, pa.Table]:
    """Compute one query, rows in the order of their columns, under its name: `q0` to `q8`.

    Q3 joins within `within_s`; Q5 slides a window of `window_s` by `slide_s`; Q4, Q6, Q7 and Q8 tumble by `window_s`.

    >>> from shoal.workloads.nexmark.events import NexmarkEvents, counts
    >>> tables = [pa.table(NexmarkEvents(kind).batch(0, rows)) for kind, rows in counts(100_000).items()]
    >>> expected(5, *tables, within_s=10, window_s=10, slide_s=5)["q5"]["bids"].to_pylist()
    [817, 825, 819]
    """
    if query_number not in QUERIES:
        raise ConfigError(f"nexmark query must be a number from 0 to {max(QUERIES)}; got {query_number!r}")
    settings = _settings(within_s, window_s, slide_s)
    query, schema = QUERIES[query_number], SCHEMAS[query_number]
    used = {name: value for name, value in settings.items() if f"${name}" in query}
    with duckdb.connect() as database:
        for name, rows in (("person", person), ("auction", auction), ("bid", bid)):
            database.from_arrow(rows).create_view(name)
        database.execute(MACROS)
        result = database.sql(f"{query} ORDER BY ALL", params=used).to_arrow_table()
        return {f"q{query_number}": result.rename_columns(schema.names).cast(schema)}


def _settings(within_s: float, window_s: float, slide_s: float) -> dict[str, object]:
    """Everything a query may refer to, times in whole microseconds."""
    within_us, window_us, slide_us = (round(seconds * MICROSECONDS) for seconds in (within_s, window_s, slide_s))
    if within_us < 0:
        raise ConfigError(f"nexmark join must be within a non-negative time; got {within_s} s")
    if window_us <= 0 or slide_us <= 0 or window_us % slide_us:
        raise ConfigError(f"nexmark window must be a multiple of its slide; got size {window_s} s, slide {slide_s} s")
    return {
        "within_us": within_us,
        "window_us": window_us,
        "slide_us": slide_us,
        "rate": RATE,
        "selected": list(SELECTED),
        "category": CATEGORY,
        "states": list(STATES),
    }
