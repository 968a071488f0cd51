"""Events of the `nexmark` workload: an auction site's new persons, new auctions and bids.

The three streams share one sequence of events: of every 50, the first is a person, three are auctions, 46 are bids.
An event is a function of its index alone, so a source can be split, replayed and resumed at any index.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.errors import ConfigError
from shoal.kernels.compiled import compiled
from shoal.workloads.limits import PER_S, SEED, START_US, check_limits, check_slice
from shoal.workloads.scatter import below, mix

Kind = Literal["person", "auction", "bid"]
Ints = npt.NDArray[np.int64]

MICROSECONDS = 1_000_000
CYCLE = 50
PERSONS, AUCTIONS, BIDS = 1, 3, 46
OF_CYCLE: Mapping[Kind, int] = {"person": PERSONS, "auction": AUCTIONS, "bid": BIDS}
"""Events of each stream among every 50 of the sequence: the share of a total or of a rate that the stream gets."""

FIRST_PERSON = 1000
FIRST_AUCTION = 1000
FIRST_CATEGORY = 10
CATEGORIES = 5
MIN_AUCTION_S = 1
MAX_AUCTION_S = 20
"""No auction is open for longer, so a bid that comes later does not count."""
MAX_PRICE = 10_000
HOT_EVERY = 100  # auctions and persons with a number divisible by this are hot until the next one comes
RECENT_AUCTIONS = 20_000  # about 33 s at the default rate, so that some bids come after their auction has expired
RECENT_PERSONS = 200
PERSONS_AHEAD = 5  # a seller may open an auction a little before the person's own event

FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
PERSON_NAMES = tuple(f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES)
STATE_OF_CITY = {
    "Phoenix": "AZ",
    "Los Angeles": "CA",
    "San Francisco": "CA",
    "Boise": "ID",
    "Portland": "OR",
    "Bend": "OR",
    "Redmond": "WA",
    "Seattle": "WA",
    "Kent": "WA",
    "Cheyenne": "WY",
}
TEXT = pa.dictionary(pa.int8(), pa.string())
TIME = pa.timestamp("us")
TEXTS = {
    "name": pa.array(PERSON_NAMES),
    "city": pa.array(STATE_OF_CITY),
    "state": pa.array(STATE_OF_CITY.values()),  # one per city: both columns have the same indices
}
SCHEMAS: Mapping[Kind, pa.Schema] = {
    "person": pa.schema({"ts": TIME, "id": pa.int64(), "name": TEXT, "city": TEXT, "state": TEXT}),
    "auction": pa.schema(
        {
            "ts": TIME,
            "id": pa.int64(),
            "seller": pa.int64(),
            "category": pa.int64(),
            "initial": pa.int64(),
            "reserve": pa.int64(),
            "expires": TIME,
        }
    ),
    "bid": pa.schema({"ts": TIME, "auction": pa.int64(), "bidder": pa.int64(), "price": pa.int64()}),
}
LIMITS = {"per_s": PER_S, "seed": SEED, "start_us": START_US}


def counts(events: int) -> dict[Kind, int]:
    """The number of events of each stream among the first events of the sequence.

    >>> counts(1_000_000)
    {'person': 20000, 'auction': 60000, 'bid': 920000}
    >>> counts(52)
    {'person': 2, 'auction': 4, 'bid': 46}
    """
    if events < 0:
        raise ConfigError(f"number of events must not be negative; got {events}")
    cycles, rest = divmod(events, CYCLE)
    return {
        "person": cycles * PERSONS + min(rest, PERSONS),
        "auction": cycles * AUCTIONS + min(max(rest - PERSONS, 0), AUCTIONS),
        "bid": cycles * BIDS + max(rest - PERSONS - AUCTIONS, 0),
    }


@dataclass(frozen=True)
class NexmarkEvents:
    """One of the three endless streams; `per_s` events of all three for every second of event time.

    Streams belong to one site if their other settings are equal. Sellers are persons who exist already or will soon,
    bidders exist, and so do the auctions they bid for; half of the bids go to the auction that is hot at the time.

    >>> bids = NexmarkEvents("bid")
    >>> bids.batch(0, 5)["auction"].to_pylist()
    [1002, 1002, 1001, 1002, 1000]
    >>> bids.batch(3, 5) == bids.batch(0, 5).slice(3)
    True
    """

    kind: Kind
    per_s: int = 10_000
    seed: int = 0
    start_us: int = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z

    def __post_init__(self) -> None:
        """Reject unknown streams, and settings beyond their limits."""
        if self.kind not in get_args(Kind):
            raise ConfigError(f"nexmark stream must be one of {', '.join(get_args(Kind))}; got {self.kind!r}")
        check_limits("nexmark", self, LIMITS)

    def schema(self) -> pa.Schema:
        """Columns of every batch.

        >>> NexmarkEvents("auction").schema().names
        ['ts', 'id', 'seller', 'category', 'initial', 'reserve', 'expires']
        """
        return SCHEMAS[self.kind]

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number `start` to `stop` - 1 of this stream; a pure function of its arguments.

        >>> NexmarkEvents("person").batch(0, 1).to_pylist()[0]["id"]
        1000
        """
        check_slice("nexmark", start, stop)
        schema = self.schema()
        columns = np.empty((len(schema), stop - start), np.int64)
        FILLS[self.kind](columns, start, np.uint64(self.seed), self.per_s, self.start_us)
        arrays = [_array(column, field) for column, field in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(column: Ints, field: pa.Field) -> pa.Array:
    """Numbers as a column; the number of a text is its index in the dictionary."""
    if field.type == TEXT:
        return pa.DictionaryArray.from_arrays(column.astype(np.int8), TEXTS[field.name])
    return pa.array(column).view(field.type)


@compiled
def _skewed(bound: int, bits: np.uint64) -> np.int64:
    """Turn the lower 32 bits into a whole number from 0 to bound - 1, half of them below an eighth of the bound."""
    share = float(bits & np.uint64(0xFFFFFFFF)) / 2**32
    return np.int64(share * share * share * bound)


@compiled
def _person(latest: int, ahead: int, bits: np.uint64) -> int:
    """Number of a person: a quarter the hot one, a tenth anyone up to the latest, else a recent one or one to come."""
    which, pick = below(20, bits), bits >> np.uint64(32)
    # All three are computed, as branches that go either way at random cost more.
    hot, anyone = latest // HOT_EVERY * HOT_EVERY, below(latest + 1, pick)
    oldest = max(0, latest + 1 - RECENT_PERSONS)
    recent = oldest + below(latest + ahead + 1 - oldest, pick)
    known = hot if which < 5 else anyone
    return known if which < 7 else recent


@compiled
def _fill_persons(columns: Ints, start: int, seed: np.uint64, per_s: int, start_us: int) -> None:
    """Fill the columns with the persons from number `start` on."""
    ts, person, name, city, state = columns
    stream = mix(seed)
    for i in range(columns.shape[1]):
        number = start + i
        n = number * CYCLE
        bits = mix(stream ^ np.uint64(n))
        ts[i] = start_us + n * MICROSECONDS // per_s
        person[i] = FIRST_PERSON + number
        name[i] = below(len(PERSON_NAMES), bits)
        city[i] = below(10, bits >> np.uint64(32))
        state[i] = city[i]


@compiled
def _fill_auctions(columns: Ints, start: int, seed: np.uint64, per_s: int, start_us: int) -> None:
    """Fill the columns with the auctions from number `start` on."""
    ts, auction, seller, category, initial, reserve, expires = columns
    stream = mix(seed)
    for i in range(columns.shape[1]):
        number = start + i
        cycle = number // AUCTIONS
        n = cycle * CYCLE + PERSONS + number % AUCTIONS
        first = mix(stream ^ np.uint64(n))
        second = mix(first)
        third = mix(second)
        ts[i] = start_us + n * MICROSECONDS // per_s
        auction[i] = FIRST_AUCTION + number
        seller[i] = FIRST_PERSON + _person(cycle, PERSONS_AHEAD, first)
        category[i] = FIRST_CATEGORY + below(CATEGORIES, second)
        initial[i] = 1 + _skewed(MAX_PRICE // 10, second >> np.uint64(32))
        reserve[i] = initial[i] + _skewed(MAX_PRICE // 2, third)
        open_us = below((MAX_AUCTION_S - MIN_AUCTION_S) * MICROSECONDS + 1, third >> np.uint64(32))
        expires[i] = ts[i] + MIN_AUCTION_S * MICROSECONDS + open_us


@compiled
def _fill_bids(columns: Ints, start: int, seed: np.uint64, per_s: int, start_us: int) -> None:
    """Fill the columns with the bids from number `start` on."""
    ts, auction, bidder, price = columns
    stream = mix(seed)
    for i in range(columns.shape[1]):
        number = start + i
        cycle = number // BIDS
        n = cycle * CYCLE + PERSONS + AUCTIONS + number % BIDS
        first = mix(stream ^ np.uint64(n))
        second = mix(first)
        latest = (cycle + 1) * AUCTIONS - 1
        ts[i] = start_us + n * MICROSECONDS // per_s
        hot, recent = latest // HOT_EVERY * HOT_EVERY, latest - _skewed(min(latest + 1, RECENT_AUCTIONS), first)
        auction[i] = FIRST_AUCTION + (hot if first >> np.uint64(63) else recent)
        bidder[i] = FIRST_PERSON + _person(cycle, 0, second)
        price[i] = 1 + _skewed(MAX_PRICE, mix(second))


FILLS: Mapping[Kind, Callable[[Ints, int, np.uint64, int, int], None]] = {
    "person": _fill_persons,
    "auction": _fill_auctions,
    "bid": _fill_bids,
}
