"""Profiles for the tests: windows per key, and rows of a join."""

import numpy as np

from shoal.control.twin.profile import LONGEST_S, Endpoint, MigrationProfile
from shoal.mechanisms.shedding.capacity import TransferLink
from shoal.model.control.fragment import Fragments

SECOND_US = 1_000_000


def fragments_of(keys: int, extents: int, nbytes: int, slide_s: float = 1.0, begin_us: int = 0) -> Fragments:
    """Extents of every key that close one slide after another; of each key the newest is worth most."""
    number = keys * extents
    extent = np.tile(np.arange(extents), keys)
    hashes = (np.arange(keys, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    closes_us = begin_us + ((extent + 1) * slide_s * SECOND_US).astype(np.int64)
    return Fragments(
        np.arange(1, number + 1, dtype=np.uint64),
        np.zeros(number, np.int64),
        np.zeros(number, np.int64),
        np.full(number, nbytes),
        closes_us,
        (1.0 + extent).astype(np.float64),
        np.ones(number, bool),
        np.repeat(hashes, extents),
        closes_us,
    )


def windows(
    keys: int = 20,
    extents: int = 5,
    nbytes: int = 1000,
    rate: float = 100.0,
    transfer_s: float = 2.0,
    slide_s: float = 1.0,
    left_s: float = LONGEST_S,
    latency_s: float = 0.001,
    skew: float = 0.0,
    load: float = 0.2,
) -> MigrationProfile:
    """Windows per key; all state takes `transfer_s` over the link."""
    fragments = fragments_of(keys, extents, nbytes, slide_s)
    share = np.random.default_rng(keys).permutation(1 / np.arange(1, keys + 1) ** skew)
    return MigrationProfile(
        fragments,
        rate * share / share.sum(),
        TransferLink(fragments.total_bytes / transfer_s, latency_s),
        event_cost_s=load / rate,
        slide_s=slide_s,
        left_s=left_s,
        source=Endpoint(),
        target=Endpoint(),
    )
