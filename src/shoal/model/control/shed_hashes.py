"""Hashes of rows and windows: the same on every machine, so that shedding is repeatable."""

import hashlib
import json

import numpy as np
from numpy.typing import NDArray

from shoal.model.control.shedding import ShedRule

_GOLDEN, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_HASHES = 1 << 64


def below(share: float) -> np.uint64:
    """The limit below which a share of all hashes lies."""
    return np.uint64(min(_HASHES - 1, int(share * _HASHES)))


def row_hashes(seed: int, stream: str, where: str, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of every row number, the same everywhere (SplitMix64)."""
    text = json.dumps([seed, stream, where]).encode()
    base = np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little"))
    mixed = numbers.astype(np.int64).view(np.uint64) * _GOLDEN + base
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))


def spans_shed(rule: ShedRule, spans: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a rule sheds windows, given by their numbers since 1970."""
    shed: NDArray[np.bool_] = row_hashes(rule.seed, "windows", "", spans) < below(rule.share)
    return shed


def shed_spans(rule: ShedRule, first_us: int, last_us: int) -> list[int]:
    """The beginnings of the windows that a rule sheds, of those that begin from `first_us` to `last_us`."""
    spans = np.arange(-(-first_us // rule.span_us), last_us // rule.span_us + 1)
    return [int(each) * rule.span_us for each in spans[spans_shed(rule, spans)]]
