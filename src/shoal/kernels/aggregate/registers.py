"""Estimates of the number of distinct values (HyperLogLog): a register keeps the longest run of zeros observed."""

import hashlib

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.columns.block import Column, encoded
from shoal.kernels.compiled import compiled

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
BITS = 11
REGISTERS = 1 << BITS
_ALPHA = 0.7213 / (1 + 1.079 / REGISTERS)


def hashes(column: Column) -> Hashes:
    """A well-mixed number per value, the same in every process."""
    if isinstance(column, pa.Array):
        texts = encoded(column)
        entries = [hashlib.blake2b(entry.encode(), digest_size=8).digest() for entry in texts.dictionary.to_pylist()]
        numbers = np.frombuffer(b"".join(entries), np.uint64) if entries else np.zeros(1, np.uint64)
        return numbers[texts.indices.to_numpy(zero_copy_only=False)]
    mixed = column.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@compiled
def add_registers(cells: Ints, hashed: Hashes, registers: Bytes) -> None:
    """Add values: the low bits choose a register, the zeros of the others are counted."""
    for i in range(cells.size):
        at = hashed[i] & np.uint64(REGISTERS - 1)
        rest = hashed[i] >> np.uint64(BITS)
        run = 1
        while run <= 64 - BITS and rest & np.uint64(1) == 0:
            rest >>= np.uint64(1)
            run += 1
        registers[cells[i], at] = max(registers[cells[i], at], np.uint8(run))


@compiled
def merge_registers(rows: Ints, cells: Ints, partial: Bytes, registers: Bytes) -> None:
    """Keep the larger of two registers."""
    for i in range(cells.size):
        for at in range(REGISTERS):
            registers[cells[i], at] = max(registers[cells[i], at], partial[rows[i], at])


def estimates(registers: Bytes) -> Ints:
    """About how many distinct values each cell has; by linear counting while many registers are empty."""
    if not len(registers):
        return np.zeros(0, np.int64)
    raw = _ALPHA * REGISTERS**2 / np.exp2(-registers.astype(np.float64)).sum(axis=1)
    empty = (registers == 0).sum(axis=1)
    few = REGISTERS * np.log(REGISTERS / np.maximum(empty, 1))
    return np.rint(np.where((raw <= 2.5 * REGISTERS) & (empty > 0), few, raw)).astype(np.int64)
