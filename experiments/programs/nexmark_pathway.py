"""The queries of NEXMark for Pathway that its SQL cannot say: windows, joins within bounds of time, and ranks."""

from datetime import timedelta
from typing import Any

import pathway as pw

MINUTE, TWENTY_SECONDS = timedelta(minutes=1), timedelta(seconds=20)
TWO_SECONDS, TEN_SECONDS, TWELVE_HOURS = timedelta(seconds=2), timedelta(seconds=10), timedelta(hours=12)
EPOCH = pw.DateTimeNaive("1970-01-01")
LAST_AUCTIONS = 10


def local_items(tables: Any) -> Any:
    """Q3: who sells in a category and in certain states, registered shortly before or after."""
    auction, person = tables["auction"], tables["person"]
    offers = auction.filter(auction.category == 10)
    sellers = person.filter((person.state == "OR") | (person.state == "ID") | (person.state == "CA"))
    near = pw.temporal.interval(-MINUTE, MINUTE)
    return offers.interval_join(sellers, offers.ts, sellers.ts, near, offers.seller == sellers.id_).select(
        sellers.name, sellers.city, sellers.state, offers.id_
    )


def category_prices(tables: Any) -> Any:
    """Q4: the average winning price of every category."""
    won = _won(tables)
    return won.groupby(won.category, won.window_end).reduce(
        won.category, won.window_end, avg_price=pw.reducers.avg(won.price)
    )


def hot_items(tables: Any) -> Any:
    """Q5: the auctions with the most bids."""
    bid = tables["bid"]
    hopping = pw.temporal.sliding(hop=TWO_SECONDS, duration=TEN_SECONDS, origin=EPOCH)
    counted = bid.windowby(bid.ts, window=hopping, instance=bid.auction).reduce(
        auction=pw.this._pw_instance, window_end=pw.this._pw_window_end, bids=pw.reducers.count()
    )
    most = counted.groupby(counted.window_end).reduce(counted.window_end, bids=pw.reducers.max(counted.bids))
    return counted.join(most, counted.window_end == most.window_end, counted.bids == most.bids).select(
        counted.auction, counted.window_end, counted.bids
    )


def seller_prices(tables: Any) -> Any:
    """Q6: the average winning price of every seller's last ten auctions."""
    won = _won(tables)
    sold = won.select(won.seller, sale=pw.make_tuple(won.window_end, won.id_, won.price))
    by_seller = sold.groupby(sold.seller).reduce(sold.seller, sales=pw.reducers.sorted_tuple(sold.sale))
    means = by_seller.select(by_seller.seller, avg_price=pw.apply_with_type(_means, list[float], by_seller.sales))
    return means.flatten(means.avg_price)


def _means(sales: tuple[tuple[Any, int, int], ...]) -> list[float]:
    prices = [sale[2] for sale in sales]
    lasts = [prices[max(0, at + 1 - LAST_AUCTIONS) : at + 1] for at in range(len(prices))]
    return [sum(last) / len(last) for last in lasts]


def highest_bids(tables: Any) -> Any:
    """Q7: the highest bids of every window."""
    bid = tables["bid"].with_columns(window_end=_window_end(tables["bid"].ts, TEN_SECONDS))
    most = bid.groupby(bid.window_end).reduce(bid.window_end, price=pw.reducers.max(bid.price))
    return bid.join(most, bid.window_end == most.window_end, bid.price == most.price).select(
        bid.ts, bid.auction, bid.bidder, bid.price, bid.window_end
    )


def new_users(tables: Any) -> Any:
    """Q8: who registered and opened an auction in the same window."""
    person, auction = tables["person"], tables["auction"]
    users = person.select(person.id_, person.name, window_end=_window_end(person.ts, TWELVE_HOURS))
    offers = auction.select(auction.seller, window_end=_window_end(auction.ts, TWELVE_HOURS))
    sellers = offers.groupby(offers.seller, offers.window_end).reduce(offers.seller, offers.window_end)
    return users.join(sellers, users.id_ == sellers.seller, users.window_end == sellers.window_end).select(
        users.id_, users.name, users.window_end
    )


def _won(tables: Any) -> Any:
    """The highest bid of every auction that has had one, with the end of the window in which it expires."""
    auction, bid = tables["auction"], tables["bid"]
    open_ = pw.temporal.interval(timedelta(0), TWENTY_SECONDS)
    both = auction.interval_join(bid, auction.ts, bid.ts, open_, auction.id_ == bid.auction).select(
        auction.id_, auction.seller, auction.category, auction.expires, auction.reserve, bid.price, at=bid.ts
    )
    valid = both.filter((both.at <= both.expires) & (both.price >= both.reserve))
    ending = valid.with_columns(window_end=_window_end(valid.expires, TEN_SECONDS))
    keys = (ending.id_, ending.seller, ending.category, ending.window_end)
    return ending.groupby(*keys).reduce(*keys, price=pw.reducers.max(ending.price))


def _window_end(time: Any, size: timedelta) -> Any:
    """The end of the window that a time is in."""
    return time.dt.floor(size) + size
