"""Random numbers by position: the bits of event n depend on n and the seed alone, so any slice can be repeated."""

import numpy as np

from shoal.kernels.compiled import compiled


@compiled
def mix(bits: np.uint64) -> np.uint64:
    """Scatter 64 bits: splitmix64."""
    bits += np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@compiled
def below(bound: int, bits: np.uint64) -> int:
    """Turn the lower 32 bits into a whole number from 0 to bound - 1."""
    return int(np.int64(((bits & np.uint64(0xFFFFFFFF)) * np.uint64(bound)) >> np.uint64(32)))
