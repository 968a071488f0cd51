"""The NEXMark oracle: DuckDB and plain Python, one result."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.workloads.nexmark.events import SCHEMAS, Kind, NexmarkEvents, counts
from shoal.workloads.nexmark.oracle import expected

SECOND = 1_000_000
WITHIN_S, WINDOW_S, SLIDE_S = 1, 6, 2
Rows = list[dict[str, Any]]
Result = list[tuple[Any, ...]]


def plain_rows(table: pa.Table) -> Rows:
    """Rows with times as microseconds."""
    fields = [(field.name, pa.int64() if pa.types.is_timestamp(field.type) else field.type) for field in table.schema]
    return table.cast(pa.schema(fields)).to_pylist()


def result(number: int, tables: dict[Kind, pa.Table]) -> Result:
    """What the oracle says, as tuples in order."""
    (table,) = expected(number, **tables, within_s=WITHIN_S, window_s=WINDOW_S, slide_s=SLIDE_S).values()
    return sorted(tuple(row.values()) for row in plain_rows(table))


def end_of(time: int, size_s: int = WINDOW_S) -> int:
    return (time // (size_s * SECOND) + 1) * size_s * SECOND


def winning(auctions: Rows, bids: Rows) -> Iterator[tuple[dict[str, Any], int]]:
    """Auctions with their winning price."""
    offers = defaultdict(list)
    for bid in bids:
        offers[bid["auction"]].append(bid)
    for auction in auctions:
        prices = [
            bid["price"]
            for bid in offers[auction["id"]]
            if auction["ts"] <= bid["ts"] <= auction["expires"] and bid["price"] >= auction["reserve"]
        ]
        if prices:
            yield auction, max(prices)


def mean(values: list[int]) -> float:
    return float(Fraction(sum(values), len(values)))


def passthrough(persons: Rows, auctions: Rows, bids: Rows) -> Result:
    return [(b["ts"], b["auction"], b["bidder"], b["price"]) for b in bids]


def currency(persons: Rows, auctions: Rows, bids: Rows) -> Result:
    return [(b["ts"], b["auction"], b["bidder"], b["price"] * 0.908) for b in bids]


def selection(persons: Rows, auctions: Rows, bids: Rows) -> Result:
    wanted = {1007, 1020, 2001, 2019, 2087}
    return [(b["ts"], b["auction"], b["price"]) for b in bids if b["auction"] in wanted]


def local_items(persons: Rows, auctions: Rows, bids: Rows) -> Result:
    return [
        (p["name"], p["city"], p["state"], a["id"])
        for a in auctions
        for p in persons
        if a["category"] == 10 and a["seller"] == p["id"] and p["state"] in {"OR", "ID", "CA"}
        if abs(a["ts"] - p["ts"]) <= WITHIN_S * SECOND
    ]


def price_of_category(persons: Rows, auctions: Rows, bids: Rows) -> Result:
    prices = defaultdict(list)
    for auction, price in winning(auctions, bids):
        prices[auction["category"], end_of(auction["expires"])].append(price)
    return [(*key, mean(some)) for key, some in prices.items()]


def hot_items(persons: Rows, auctions: Rows, bids: Rows) -> Result:
    windows: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in bids:
        end = end_of(bid["ts"], SLIDE_S)
        while end - WINDOW_S * SECOND <= bid["ts"]:
            windows[end][bid["auction"]] += 1
            end += SLIDE_S * SECOND
    most = {end: max(numbers.values()) for end, numbers in windows.items()}
    return [
        (auction, end, number)
        for end, numbers in windows.items()
        for auction, number in numbers.items()
        if number == most[end]
    ]


def price_of_seller(persons: Rows, auctions: Rows, bids: Rows) -> Result:
    sold = sorted(winning(auctions, bids), key=lambda pair: (end_of(pair[0]["expires"]), pair[0]["id"]))
    prices, rows = defaultdict(list), []
    for auction, price in sold:
        prices[auction["seller"]].append(price)
        rows.append((auction["seller"], auction["id"], mean(prices[auction["seller"]][-10:])))
    return rows


def highest_bid(persons: Rows, auctions: Rows, bids: Rows) -> Result:
    highest: dict[int, int] = defaultdict(int)
    for bid in bids:
        highest[end_of(bid["ts"])] = max(highest[end_of(bid["ts"])], bid["price"])
    return [
        (b["ts"], b["auction"], b["bidder"], b["price"], end_of(b["ts"]))
        for b in bids
        if b["price"] == highest[end_of(b["ts"])]
    ]


def new_users(persons: Rows, auctions: Rows, bids: Rows) -> Result:
    opened = {(a["seller"], end_of(a["ts"])) for a in auctions}
    return list({(p["id"], p["name"], end_of(p["ts"])) for p in persons if (p["id"], end_of(p["ts"])) in opened})


PLAIN: list[Callable[[Rows, Rows, Rows], Result]] = [
    passthrough,
    currency,
    selection,
    local_items,
    price_of_category,
    hot_items,
    price_of_seller,
    highest_bid,
    new_users,
]
queries = pytest.mark.parametrize(("number", "plain"), list(enumerate(PLAIN)), ids=[query.__name__ for query in PLAIN])


def wanted(plain: Callable[[Rows, Rows, Rows], Result], tables: dict[Kind, pa.Table]) -> Result:
    return sorted(plain(*(plain_rows(tables[kind]) for kind in ("person", "auction", "bid"))))


def assert_same(got: Result, right: Result) -> None:
    """Compare exactly, but for last columns with averages, which may differ by rounding."""
    if right and isinstance(right[0][-1], float):
        assert [row[:-1] for row in got] == [row[:-1] for row in right]
        assert [row[-1] for row in got] == pytest.approx([row[-1] for row in right], rel=1e-12)
    else:
        assert got == right


def generated(events: int, per_s: int, seed: int = 0) -> dict[Kind, pa.Table]:
    return {kind: pa.table(NexmarkEvents(kind, per_s, seed).batch(0, rows)) for kind, rows in counts(events).items()}


@queries
@pytest.mark.parametrize("per_s", [100, 1000], ids=["a minute", "six seconds"])
def test_the_oracle_and_plain_python_agree_on_generated_events(
    number: int, plain: Callable[[Rows, Rows, Rows], Result], per_s: int
) -> None:
    tables = generated(6000, per_s)
    right = wanted(plain, tables)
    assert right, "a test without a result says nothing"
    assert_same(result(number, tables), right)


# Around the Unix epoch, so that times before it are drawn too; few ids and prices, so that they meet and tie.
times = st.integers(-10 * SECOND, 10 * SECOND) | st.integers(-10, 10).map(lambda second: second * SECOND)
ids, prices = st.sampled_from([1007, 1020, 3]), st.integers(1, 5)
persons = st.fixed_dictionaries(
    {
        "ts": times,
        "id": ids,
        "name": st.sampled_from(["Ann", "Bob"]),
        "city": st.just("Bend"),
        "state": st.sampled_from(["OR", "WA"]),
    }
)
auctions = st.fixed_dictionaries(
    {
        "ts": times,
        "id": ids,
        "seller": ids,
        "category": st.integers(10, 11),
        "initial": st.just(1),
        "reserve": prices,
        "expires": times,
    }
)
bids = st.fixed_dictionaries({"ts": times, "auction": ids, "bidder": ids, "price": prices})
sites = st.fixed_dictionaries(
    {
        "person": st.lists(persons, max_size=5),
        "auction": st.lists(auctions, max_size=3, unique_by=lambda auction: auction["id"]),
        "bid": st.lists(bids, max_size=20),
    }
)


@settings(deadline=None, max_examples=25)
@given(sites)
@queries
def test_the_oracle_and_plain_python_agree_on_events_that_meet_at_every_border(
    number: int, plain: Callable[[Rows, Rows, Rows], Result], site: dict[Kind, Rows]
) -> None:
    tables = {kind: pa.Table.from_pylist(rows, schema=SCHEMAS[kind]) for kind, rows in site.items()}
    assert_same(result(number, tables), wanted(plain, tables))


@pytest.mark.parametrize("number", range(9))
def test_no_events_give_an_empty_result_of_the_right_types(number: int) -> None:
    names = [f"q{number}"]
    empty, some = (
        expected(number, **generated(events, 1000), within_s=1, window_s=10, slide_s=5) for events in (0, 6000)
    )
    assert list(empty) == list(some) == names
    assert empty[names[0]] == some[names[0]].schema.empty_table()


def test_windows_are_aligned_to_the_epoch_even_if_no_day_is_a_multiple_of_them() -> None:
    tables = generated(100, 1000)
    (rows,) = expected(7, **tables, within_s=0, window_s=7, slide_s=7).values()
    assert {end % (7 * SECOND) for end in rows["window_end"].cast(pa.int64()).to_pylist()} == {0}


def test_auctions_that_are_equally_hot_are_all_given() -> None:
    tables = generated(0, 1000)
    rows = [{"ts": 0, "auction": auction, "bidder": 1, "price": 5} for auction in (3, 1, 2, 1, 3)]
    tables["bid"] = pa.Table.from_pylist(rows, schema=SCHEMAS["bid"])
    assert result(5, tables) == [(auction, end * SECOND, 2) for auction in (1, 3) for end in (2, 4, 6)]


@pytest.mark.parametrize("sign", [-1, 1], ids=["before", "after"])
def test_a_person_is_suggested_up_to_the_very_bound_in_time_and_no_further(sign: int) -> None:
    tables = generated(0, 1000)
    seller = {"id": 1, "name": "Ann", "city": "Bend", "state": "OR"}
    opened = {"ts": 0, "seller": 1, "category": 10, "initial": 1, "reserve": 1, "expires": SECOND}
    tables["auction"] = pa.Table.from_pylist([{**opened, "id": 5}], schema=SCHEMAS["auction"])
    for distance, found in ((WITHIN_S * SECOND, [("Ann", "Bend", "OR", 5)]), (WITHIN_S * SECOND + 1, [])):
        tables["person"] = pa.Table.from_pylist([{**seller, "ts": sign * distance}], schema=SCHEMAS["person"])
        assert result(3, tables) == found


@pytest.mark.parametrize(
    ("number", "times", "message"),
    [
        pytest.param(9, (1, 10, 5), "from 0 to 8; got 9", id="a query that does not exist"),
        pytest.param(5, (1, 10, 3), "got size 10 s, slide 3 s", id="a window that is no multiple of its slide"),
        pytest.param(5, (1, 0, 0), "got size 0 s, slide 0 s", id="a window of no length"),
        pytest.param(3, (-1, 10, 5), "got -1 s", id="a join within a negative time"),
    ],
)
def test_it_refuses(number: int, times: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        expected(number, **generated(0, 1000), **dict(zip(("within_s", "window_s", "slide_s"), times, strict=True)))
