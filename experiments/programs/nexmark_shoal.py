"""Queries 4 and 6 of NEXMark for Shoal: SQL has no windows by another column than the event time, nor over rows."""

from collections.abc import Mapping

from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import max_, mean
from shoal.model.query.expression import col
from shoal.model.query.window import rows, tumbling

LONGEST_S = 20
"""No auction is open for longer."""
WINDOW_S = 10
LAST_AUCTIONS = 10
GROUPS = 8


def won(streams: Mapping[str, Stream]) -> Flow:
    """The highest bid of every auction that has had one, at the end of the window in which it expires."""
    valid = (col("ts_right") <= col("expires")) & (col("price") >= col("reserve"))
    bids = streams["auction"].join(
        streams["bid"], on={"id": "auction"}, within_s=(0, LONGEST_S), where=valid, groups=GROUPS
    )
    ending = bids.select("id", "seller", "category", "expires", "price").retime("expires")
    by_auction = ending.partition_by("id", groups=GROUPS).key_by("seller", "category")
    return by_auction.window(tumbling(WINDOW_S)).aggregate(price=max_("price"))


def category_prices(streams: Mapping[str, Stream]) -> Flow:
    """Q4: the average winning price of every category."""
    return won(streams).key_by("category").window(tumbling(WINDOW_S)).aggregate(avg_price=mean("price"))


def seller_prices(streams: Mapping[str, Stream]) -> Flow:
    """Q6: the average winning price of every seller's last ten auctions."""
    sold = won(streams).select("seller", "id", "price").partition_by("seller", groups=GROUPS)
    last = sold.window(rows(LAST_AUCTIONS, 1, partial=True)).aggregate(avg_price=mean("price"))
    return last.select("seller", "avg_price")
