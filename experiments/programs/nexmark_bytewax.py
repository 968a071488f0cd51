"""The queries of NEXMark for Bytewax: rows are dictionaries; the two sides of a join come in any order.

Bytewax has no joins within bounds of time, so rows of both sides are kept by key and matched as they come.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
from bytewax.operators import windowing as win

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE, TEN_SECONDS = timedelta(minutes=1), timedelta(seconds=10)
TWO_SECONDS, TWELVE_HOURS = timedelta(seconds=2), timedelta(hours=12)
SELECTED = {1007, 1020, 2001, 2019, 2087}
STATES = {"OR", "ID", "CA"}
LAST_AUCTIONS = 10


def passthrough(streams: Any, clock: Any) -> Any:
    """Q0: every bid."""
    return streams["bid"]


def currency(streams: Any, clock: Any) -> Any:
    """Q1: every bid in another currency."""
    return op.map("convert", streams["bid"], lambda row: {**row, "price": row["price"] * 0.908})


def selection(streams: Any, clock: Any) -> Any:
    """Q2: bids for a few auctions."""
    chosen = op.filter("selected", streams["bid"], lambda row: row["auction"] in SELECTED)
    return op.map("columns", chosen, lambda row: _only(row, "ts", "auction", "price"))


def local_items(streams: Any, clock: Any) -> Any:
    """Q3: who sells in a category and in certain states, registered shortly before or after."""
    offers = op.filter("category", streams["auction"], lambda row: row["category"] == 10)
    sellers = op.filter("state", streams["person"], lambda row: row["state"] in STATES)

    def joined(offer: Row, seller: Row) -> Iterable[Row]:
        if abs(offer["ts"] - seller["ts"]) <= MINUTE:
            yield {**_only(seller, "name", "city", "state"), "id": offer["id"]}

    return _join(offers, "seller", sellers, "id", joined)


def category_prices(streams: Any, clock: Any) -> Any:
    """Q4: the average winning price of every category."""
    keyed = op.map("category", _won(streams), lambda row: ((str(row["category"]), row["window_end"]), row["price"]))
    named = op.map("name", keyed, lambda item: (f"{item[0][0]} {item[0][1].isoformat()}", item[1]))
    sums = op.fold_final("sums", named, lambda: (0, 0), lambda sums, price: (sums[0] + price, sums[1] + 1))

    def mean(item: tuple[str, tuple[int, int]]) -> Row:
        category, window_end = item[0].split(" ")
        total, count = item[1]
        return {
            "category": int(category),
            "window_end": datetime.fromisoformat(window_end),
            "avg_price": total / count,
        }

    return op.map("mean", sums, mean)


def hot_items(streams: Any, clock: Any) -> Any:
    """Q5: the auctions with the most bids."""
    keyed = op.key_on("auction", streams["bid"], lambda row: str(row["auction"]))
    hopping = win.SlidingWindower(align_to=EPOCH, length=TEN_SECONDS, offset=TWO_SECONDS)
    counted = win.fold_window("count", keyed, clock("ts"), hopping, int, lambda n, _: n + 1, lambda a, b: a + b, False)
    by_window = op.map("window", counted.down, lambda item: (str(item[1][0]), (int(item[0]), item[1][1])))
    most = op.fold_final("most", by_window, list, _with_ties)

    def rows(item: tuple[str, list[tuple[int, int]]]) -> Iterable[Row]:
        window_end = EPOCH + int(item[0]) * TWO_SECONDS + TEN_SECONDS
        return [{"auction": auction, "window_end": window_end, "bids": bids} for auction, bids in item[1]]

    return op.flat_map("rows", most, rows)


def seller_prices(streams: Any, clock: Any) -> Any:
    """Q6: the average winning price of every seller's last ten auctions."""
    keyed = op.map("seller", _won(streams), lambda row: (str(row["seller"]), row))
    sold = op.fold_final("sold", keyed, list, lambda rows, row: [*rows, row])

    def means(item: tuple[str, list[Row]]) -> Iterable[Row]:
        rows = sorted(item[1], key=lambda row: (row["window_end"], row["id"]))
        for at in range(len(rows)):
            last = [row["price"] for row in rows[max(0, at + 1 - LAST_AUCTIONS) : at + 1]]
            yield {"seller": int(item[0]), "avg_price": sum(last) / len(last)}

    return op.flat_map("means", sold, means)


def highest_bids(streams: Any, clock: Any) -> Any:
    """Q7: the highest bids of every window."""
    keyed = op.key_on("all", streams["bid"], lambda _: "all")
    tumbling = win.TumblingWindower(align_to=EPOCH, length=TEN_SECONDS)

    def fold(best: list[Row], row: Row) -> list[Row]:
        if not best or row["price"] > best[0]["price"]:
            return [row]
        return [*best, row] if row["price"] == best[0]["price"] else best

    def merge(one: list[Row], other: list[Row]) -> list[Row]:
        for row in other:
            one = fold(one, row)
        return one

    best = win.fold_window("best", keyed, clock("ts"), tumbling, list, fold, merge, ordered=False)

    def rows(item: tuple[str, tuple[int, list[Row]]]) -> Iterable[Row]:
        number, found = item[1]
        return [{**row, "window_end": EPOCH + (number + 1) * TEN_SECONDS} for row in found]

    return op.flat_map("rows", best.down, rows)


def new_users(streams: Any, clock: Any) -> Any:
    """Q8: who registered and opened an auction in the same window."""

    def joined(person: Row, auction: Row) -> Iterable[Row]:
        window_end = _window_end(person["ts"], TWELVE_HOURS)
        if window_end == _window_end(auction["ts"], TWELVE_HOURS):
            yield {**_only(person, "id", "name"), "window_end": window_end}

    both = _join(streams["person"], "id", streams["auction"], "seller", joined)
    keyed = op.map("user", both, lambda row: (f"{row['id']} {row['window_end']}", row))
    return op.map("row", op.stateful_flat_map("once", keyed, _once), lambda item: item[1])


def _won(streams: Any) -> Any:
    """The highest bid of every auction that has had one, with the end of the window in which it expires."""

    def bids(auction: Row, bid: Row) -> Iterable[Row]:
        if auction["ts"] <= bid["ts"] <= auction["expires"] and bid["price"] >= auction["reserve"]:
            yield {**auction, "price": bid["price"]}

    valid = _join(streams["auction"], "id", streams["bid"], "auction", bids)
    keyed = op.key_on("auction", valid, lambda row: str(row["id"]))
    highest = op.max_final("highest", keyed, lambda row: row["price"])
    return op.map(
        "ending", highest, lambda item: {**item[1], "window_end": _window_end(item[1]["expires"], TEN_SECONDS)}
    )


def _join(left: Any, left_key: str, right: Any, right_key: str, joined: Callable[[Row, Row], Iterable[Row]]) -> Any:
    """Rows that `joined` makes of every pair with the same key."""
    lefts = op.map("left", left, lambda row: (str(row[left_key]), (0, row)))
    rights = op.map("right", right, lambda row: (str(row[right_key]), (1, row)))

    def pairs(state: tuple[list[Row], list[Row]] | None, item: tuple[int, Row]) -> tuple[Any, list[Row]]:
        state = state or ([], [])
        side, row = item
        state[side].append(row)
        made = [found for other in state[1 - side] for found in joined(*((row, other) if side == 0 else (other, row)))]
        return state, made

    matched = op.stateful_flat_map("join", op.merge("sides", lefts, rights), pairs)
    return op.map("joined", matched, lambda item: item[1])


def _with_ties(best: list[tuple[int, int]], item: tuple[int, int]) -> list[tuple[int, int]]:
    if not best or item[1] > best[0][1]:
        return [item]
    return [*best, item] if item[1] == best[0][1] else best


def _once(state: bool | None, row: Row) -> tuple[bool, list[Row]]:
    return True, [] if state else [row]


def _window_end(at: datetime, size: timedelta) -> datetime:
    return EPOCH + ((at - EPOCH) // size + 1) * size


def _only(row: Row, *names: str) -> Row:
    return {name: row[name] for name in names}
