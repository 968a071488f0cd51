"""The `nexmark` workload: queries 0 to 8 of an auction site, over persons, auctions and bids."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source
from shoal.errors import ConfigError
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, max_, mean
from shoal.model.query.expression import col
from shoal.model.query.graph import Query
from shoal.model.query.schema import not_null
from shoal.model.query.window import hop, rows, tumbling
from shoal.session.job import Job
from shoal.workloads.nexmark.events import CYCLE, MAX_AUCTION_S, OF_CYCLE, NexmarkEvents, counts
from shoal.workloads.nexmark.oracle import CATEGORY, LAST_AUCTIONS, RATE, SELECTED, STATES, expected
from shoal.workloads.oracle_input import oracle_input
from shoal.workloads.workload import Amount, Ready, Workload

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "person": {"ts": "timestamp", "id": "int64", "name": "string", "city": "string", "state": "string"},
    "auction": {
        "ts": "timestamp",
        **dict.fromkeys(("id", "seller", "category", "initial", "reserve"), "int64"),
        "expires": "timestamp",
    },
    "bid": {"ts": "timestamp", **dict.fromkeys(("auction", "bidder", "price"), "int64")},
}


@dataclass(frozen=True)
class Site:
    """The three streams, and the sizes of windows and key groups."""

    within_s: float = 60
    window_s: float = 10
    slide_s: float = 2
    groups: int = 8

    @property
    def person(self) -> Stream:
        """Who has registered."""
        return Stream("person", not_null(COLUMNS["person"]), time="ts")

    @property
    def auction(self) -> Stream:
        """What is on offer."""
        return Stream("auction", not_null(COLUMNS["auction"]), time="ts")

    @property
    def bid(self) -> Stream:
        """What is bid."""
        return Stream("bid", not_null(COLUMNS["bid"]), time="ts")

    def won(self) -> Flow:
        """The highest bid of every auction that has had one, at the end of the window in which it expires."""
        valid = (col("ts_right") <= col("expires")) & (col("price") >= col("reserve"))
        bids = self.auction.join(
            self.bid, on={"id": "auction"}, within_s=(0, MAX_AUCTION_S), where=valid, groups=self.groups
        )
        ending = bids.select("id", "seller", "category", "expires", "price").retime("expires")
        by_auction = ending.partition_by("id", groups=self.groups).key_by("seller", "category")
        return by_auction.window(tumbling(self.window_s)).aggregate(price=max_("price"))


def passthrough(site: Site) -> Flow:
    """Q0: every bid."""
    return site.bid


def currency(site: Site) -> Flow:
    """Q1: every bid in another currency."""
    return site.bid.select("ts", "auction", "bidder", price=col("price") * RATE)


def selection(site: Site) -> Flow:
    """Q2: bids for a few auctions."""
    return site.bid.filter(col("auction").is_in(SELECTED)).select("ts", "auction", "price")


def local_items(site: Site) -> Flow:
    """Q3: who sells in a category and in certain states, registered shortly before or after."""
    sellers = site.person.filter(col("state").is_in(STATES))
    offers = site.auction.filter(col("category") == CATEGORY)
    joined = offers.join(sellers, on={"seller": "id"}, within_s=(-site.within_s, site.within_s), groups=site.groups)
    return joined.select("name", "city", "state", "id")


def category_prices(site: Site) -> Flow:
    """Q4: the average winning price of every category."""
    return site.won().key_by("category").window(tumbling(site.window_s)).aggregate(avg_price=mean("price"))


def hot_items(site: Site) -> Flow:
    """Q5: the auctions with the most bids."""
    bids = site.bid.partition_by("auction", groups=site.groups)
    counted = bids.window(hop(site.window_s, site.slide_s)).aggregate(bids=count())
    return counted.rank("bids", 1, ties=True).select("auction", "window_end", "bids")


def seller_prices(site: Site) -> Flow:
    """Q6: the average winning price of every seller's last ten auctions."""
    sold = site.won().select("seller", "id", "price").partition_by("seller", groups=site.groups)
    last = sold.window(rows(LAST_AUCTIONS, 1, partial=True)).aggregate(avg_price=mean("price"))
    return last.select("seller", "avg_price")


def highest_bid(site: Site) -> Flow:
    """Q7: the highest bids of every window."""
    ranked = site.bid.assign(tumbling(site.window_s)).rank("price", 1, ties=True)
    return ranked.select("ts", "auction", "bidder", "price", "window_end")


def new_users(site: Site) -> Flow:
    """Q8: who registered and opened an auction in the same window."""
    auctions = site.auction.partition_by("seller", groups=site.groups)
    sellers = auctions.window(tumbling(site.window_s)).aggregate(auctions=count())
    persons = site.person.assign(tumbling(site.window_s))
    on = {"id": "seller", "window_end": "window_end"}
    return persons.join(sellers, on=on, within_s=(0, 0), groups=site.groups).select("id", "name", "window_end")


QUERIES: tuple[Callable[[Site], Flow], ...] = (
    passthrough,
    currency,
    selection,
    local_items,
    category_prices,
    hot_items,
    seller_prices,
    highest_bid,
    new_users,
)


def query(number: int, site: Site) -> Query:
    """A query by its number.

    >>> query(5, Site()).columns
    {'auction': 'int64', 'window_end': 'timestamp', 'bids': 'int64'}
    """
    return QUERIES[number](site).sink(f"q{number}")


def _numbers(text: str) -> list[int]:
    if text == "all":
        return list(range(len(QUERIES)))
    numbers = [part.strip().removeprefix("q").removeprefix("Q") for part in text.split(",")]
    if not all(number.isdigit() and int(number) < len(QUERIES) for number in numbers):
        raise ConfigError(f"setting 'queries' must be 'all' or numbers from 0 to {len(QUERIES) - 1}; got {text!r}")
    return [int(number) for number in numbers]


def build(seed: int, amount: Amount, settings: Mapping[str, Any], source: Source | None) -> Ready:
    """The job and its oracle over generated events."""
    if source is not None:
        raise ConfigError("nexmark has three streams; --source cannot replace them")
    if amount.events is None:
        raise ConfigError("nexmark needs --events, which are divided among its three streams")
    numbers = _numbers(settings["queries"])
    site = Site(settings["within_s"], settings["window_s"], settings["slide_s"], settings["groups"])
    events = {kind: NexmarkEvents(kind, settings["per_s"], seed) for kind in OF_CYCLE}
    share = {kind: number / CYCLE for kind, number in OF_CYCLE.items()}
    split = counts(amount.events)
    job_queries = [query(number, site) for number in numbers]
    needed = {stream for each in job_queries for stream in each.streams}
    sources: dict[str, Generator] = {
        kind: Generator(
            events[kind],
            split[kind],
            None if amount.rate is None else amount.rate * share[kind],
            max(1, round(amount.rows_per_epoch * share[kind])),
        )
        for kind in OF_CYCLE
        if kind in needed
    }

    def expected_tables(number: int) -> dict[str, pa.Table]:
        if number != sum(split[kind] for kind in OF_CYCLE if kind in sources):
            raise ConfigError("nexmark's oracle needs all events; leave --seconds out or --check")
        person, auction, bid = (
            oracle_input(events[kind], split[kind], list(COLUMNS[kind]), None) for kind in ("person", "auction", "bid")
        )
        found: dict[str, pa.Table] = {}
        for each in numbers:
            found |= expected(each, person, auction, bid, site.within_s, site.window_s, site.slide_s)
        if "q6" in found:
            found["q6"] = found["q6"].drop_columns(["auction"])
        return found

    return Ready(Job.of("nexmark", job_queries, sources), expected_tables)


NEXMARK = Workload(
    "nexmark",
    "persons, auctions and bids: queries 0 to 8, or those in the setting 'queries'",
    build,
    {"queries": "all", "per_s": 10_000, "within_s": 60.0, "window_s": 10.0, "slide_s": 2.0, "groups": 8},
    events=500_000,
)
