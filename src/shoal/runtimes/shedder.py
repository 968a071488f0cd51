"""Shedding of admitted rows: which rows of a batch are dropped before any operator sees them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.watermarks import Reading
from shoal.connectors.sources.source import RawBatch
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.nullable import present, values_of
from shoal.kernels.expression.evaluate import evaluate
from shoal.model.control.shed_hashes import below, row_hashes, spans_shed
from shoal.model.control.shedding import ShedCount, ShedRule, StreamShedding
from shoal.model.query.expression import from_data

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Positions:
    """Where rows are in their source: rows number `numbers` of `where`."""

    where: str
    numbers: NDArray[np.int64]

    @classmethod
    def of(cls, raw: RawBatch, rows: NDArray[np.int64]) -> "Positions":
        """The positions of some rows of a batch."""
        return cls(raw.where, raw.first_row + rows if raw.numbers is None else raw.numbers[rows])


@dataclass
class Shedder:
    """Drops rows of one stream, by the ranges of event time in which that was asked for, and counts them."""

    stream: str
    time: str
    shedding: StreamShedding
    count: ShedCount = field(default_factory=ShedCount)

    def keeps(self, block: Block, positions: Positions) -> Mask | None:
        """The rows to keep; None for all of them."""
        times: NDArray[np.int64] = block.columns[self.time]
        oldest, newest = int(times.min()), int(times.max())
        shed: Mask | None = None
        for each in self.shedding.ranges:
            if each.start_us > newest or each.end_us <= oldest:
                continue
            inside = (times >= each.start_us) & (times < each.end_us)
            found = self._shed(each.rule, block, positions, np.flatnonzero(inside))
            shed = found if shed is None else shed | found
        if shed is None or not shed.any():
            return None
        self.count += ShedCount(int(np.count_nonzero(shed)), oldest_us=int(times[shed].min()))
        return ~shed

    def kept(self, block: Block, positions: Positions) -> Block:
        """The rows that are not shed."""
        keeps = self.keeps(block, positions)
        return block if keeps is None else block.where(keeps)

    def _shed(self, rule: ShedRule, block: Block, positions: Positions, rows: NDArray[np.int64]) -> Mask:
        """The rows that a rule sheds, among those in its range."""
        shed = np.zeros(block.length, bool)
        if rule.kind == "windows":
            spans = block.columns[self.time][rows] // rule.span_us
            shed[rows] = spans_shed(rule, spans)
            return shed
        hashes = row_hashes(rule.seed, self.stream, positions.where, positions.numbers[rows])
        if rule.kind == "random":
            shed[rows] = hashes < below(rule.share)
            return shed
        utilities = _utilities(rule, block, rows)
        least = _least(utilities, hashes, int(rule.share * rows.size))
        self.count += ShedCount(0, _total(utilities[least]), _total(utilities))
        shed[rows[least]] = True
        return shed


def _utilities(rule: ShedRule, block: Block, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The utility of rows; that of null and NaN is the least."""
    value = evaluate(from_data(json.loads(rule.utility)), block)
    numbers = np.where(present(value), np.asarray(values_of(value), np.float64), -np.inf)[rows]
    return np.where(np.isnan(numbers), -np.inf, numbers)


def _total(utilities: NDArray[np.float64]) -> float:
    return float(utilities[np.isfinite(utilities)].sum())


def _least(utilities: NDArray[np.float64], hashes: NDArray[np.uint64], number: int) -> NDArray[np.int64]:
    """The rows with the least utility, so many of them; among equals, those with the smallest hashes."""
    if not number:
        return np.zeros(0, np.int64)
    limit = np.partition(utilities, number - 1)[number - 1]
    below = np.flatnonzero(utilities < limit)
    equal = np.flatnonzero(utilities == limit)
    first = equal[np.argsort(hashes[equal], kind="stable")[: number - below.size]]
    return np.concatenate([below, first])


def shedder_of(stream: str, time: str, shedding: Mapping[str, StreamShedding]) -> Shedder | None:
    """What sheds rows of a stream; None if none are."""
    found = shedding.get(stream)
    return Shedder(stream, time, found) if found is not None and found.ranges else None


def after_reading(shedding: Mapping[str, StreamShedding], readings: Iterable[Reading]) -> Mapping[str, StreamShedding]:
    """The shedding of all streams after some of their rows were read."""
    if not shedding:
        return shedding
    after = dict(shedding)
    for each in readings:
        if each.stream in after:
            after[each.stream] = after[each.stream].read(each.newest_us)
    return after


def in_use(shedding: Mapping[str, StreamShedding]) -> dict[str, StreamShedding]:
    """The streams of which rows may be shed, or were."""
    return {stream: each for stream, each in shedding.items() if each.rule is not None or each.ranges}


def switched(shedding: Mapping[str, StreamShedding], *, active: bool) -> Mapping[str, StreamShedding]:
    """The shedding of all streams, switched on or off for the rows that are still to come."""
    return {stream: each.switched(active=active) for stream, each in shedding.items()}
