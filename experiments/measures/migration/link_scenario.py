"""Random migrations: an operator, its rows, a link, two workers, and perhaps a disconnection."""

import math
import random
from dataclasses import dataclass

import numpy as np

from shoal.compiler.build import kernel_of
from shoal.control.twin.profile import LONGEST_S, Floats
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import Kernel
from shoal.language.python.stream import Stream
from shoal.model.control.fragment import Ints
from shoal.model.query.aggregate import count, mean
from shoal.model.query.schema import not_null
from shoal.model.query.window import hop

TICK_S = 0.05
HORIZON_S = 30.0
BASE_US = 1_003_370_000
"""Event time at the beginning of a migration: in the middle of windows."""
OPERATORS = ("windows", "join", "deduplicate")
TYPES = not_null({"ts": "timestamp", "key": "int64", "value": "float64"})


@dataclass(frozen=True)
class LinkScenario:
    """A random migration; `transfer_s` is how long all state takes over the link, `load` the work of a second."""

    seed: int
    operator: str
    keys: int
    skew: float
    rate: float
    size_s: float
    slides: int
    transfer_s: float
    latency_s: float
    loads: tuple[float, float]
    replicated: bool
    left_s: float

    @classmethod
    def of(cls, seed: int) -> "LinkScenario":
        """The scenario of a seed."""
        draw = random.Random(seed)
        operator = draw.choice(OPERATORS)
        return cls(
            seed,
            operator,
            keys=round(math.exp(draw.uniform(math.log(5), math.log(400)))),
            skew=draw.choice([0.0, 0.5, 1.0, 1.5]),
            rate=math.exp(draw.uniform(math.log(20), math.log(400 if operator != "join" else 120))),
            size_s=draw.choice([2.0, 4.0, 8.0, 16.0]),
            slides=draw.choice([1, 2, 4, 8]),
            transfer_s=math.exp(draw.uniform(math.log(0.05), math.log(8))),
            latency_s=draw.choice([0.0005, 0.005, 0.05]),
            loads=(draw.uniform(0.1, 1.2), draw.uniform(0.1, 0.8)),
            replicated=draw.random() < 0.2,
            left_s=draw.uniform(0.2, 10) if draw.random() < 0.3 else LONGEST_S,
        )

    @property
    def slide_s(self) -> float:
        """Time between the ends of two windows; 0 without windows."""
        return self.size_s / self.slides if self.operator == "windows" else 0.0

    @property
    def lifetime_s(self) -> float:
        """How long a part of the state is needed: a row of a join for half of the range on both sides."""
        return self.size_s / 2 if self.operator == "join" else self.size_s

    def kernel(self) -> Kernel:
        """The kernel of the operator."""
        rows = Stream("rows", TYPES, time="ts")
        if self.operator == "windows":
            flow = rows.key_by("key").window(hop(self.size_s, self.slide_s)).aggregate(n=count(), m=mean("value"))
        elif self.operator == "join":
            others = Stream("others", TYPES, time="ts").select("ts", "key", value2="value")
            flow = rows.join(others, on="key", within_s=(-self.size_s / 2, self.size_s / 2))
        else:
            flow = rows.key_by("key").deduplicate(self.size_s)
        operators = {each.id: each for each in flow.operators}
        last = flow.operators[-1]
        before = operators[last.inputs[0]]
        return kernel_of(last, before if before.kind == "window" else None, "", by_instance=True)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows by time: when they arrive, their keys, ports and values."""

    at_s: Floats
    key: Ints
    port: Ints
    value: Floats

    @classmethod
    def of(cls, scenario: LinkScenario) -> "Rows":
        """Random rows from before the migration until the horizon."""
        draw = np.random.default_rng(scenario.seed)
        begin_s = -2 * scenario.size_s
        number = draw.poisson(scenario.rate * (HORIZON_S - begin_s))
        share = 1 / np.arange(1, scenario.keys + 1) ** scenario.skew
        return cls(
            np.sort(draw.uniform(begin_s, HORIZON_S, number)),
            draw.choice(scenario.keys, number, p=share / share.sum()),
            draw.integers(0, 2 if scenario.operator == "join" else 1, number),
            draw.random(number),
        )

    def block(self, places: Ints) -> Block:
        """Some rows as a block."""
        ts = BASE_US + np.floor(self.at_s[places] * 1e6).astype(np.int64)
        columns = {"ts": ts, "key": self.key[places], "value": self.value[places], "value2": self.value[places]}
        return Block({**columns, INSTANCE: np.zeros(places.size, np.int64)}, int(places.size))


def watermark_us(now_s: float) -> int:
    """The watermark at a time."""
    return BASE_US + round(now_s * 1e6)
