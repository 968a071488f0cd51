"""Estimates of distinct values: close enough, and independent of the order of merging."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from shoal.kernels.aggregate.registers import REGISTERS, add_registers, estimates, hashes, merge_registers


def registers(values: Any) -> NDArray[np.uint8]:
    made = np.zeros((1, REGISTERS), np.uint8)
    add_registers(np.zeros(len(values), np.int64), hashes(values), made)
    return made


@pytest.mark.parametrize("number", [1, 10, 100, 1_000, 5_000, 10_000, 50_000, 200_000])
@pytest.mark.parametrize(
    ("first", "step"),
    [
        pytest.param(0, 1, id="from 0"),
        pytest.param(-(10**12), 1_000_000, id="times"),
        pytest.param(7, 1 << 20, id="powers"),
    ],
)
def test_an_estimate_is_at_most_five_percent_wrong(number: int, first: int, step: int) -> None:
    estimate = int(estimates(registers(first + step * np.arange(number)))[0])
    assert abs(estimate - number) <= 0.05 * number


def test_texts_are_estimated_as_well() -> None:
    texts = pa.array([f"vehicle {i % 3000}" for i in range(9000)])
    assert abs(int(estimates(registers(texts))[0]) - 3000) <= 150


def test_repeated_values_change_nothing() -> None:
    values = np.arange(500)
    assert np.array_equal(registers(np.tile(values, 20)), registers(values))


def test_merged_registers_are_those_of_the_union() -> None:
    one, other = np.arange(0, 3000), np.arange(2000, 7000)
    merged = np.zeros((1, REGISTERS), np.uint8)
    partial = np.concatenate([registers(one), registers(other)])
    merge_registers(np.arange(2), np.zeros(2, np.int64), partial, merged)
    assert np.array_equal(merged, registers(np.arange(7000)))


def test_cells_are_estimated_separately() -> None:
    made = np.zeros((2, REGISTERS), np.uint8)
    add_registers(np.arange(100) % 2, hashes(np.arange(100) % 4), made)
    assert estimates(made).tolist() == [2, 2]


def test_no_values_are_estimated_as_zero() -> None:
    assert estimates(np.zeros((2, REGISTERS), np.uint8)).tolist() == [0, 0]
    assert estimates(np.zeros((0, REGISTERS), np.uint8)).tolist() == []
    assert hashes(pa.array([], pa.string())).tolist() == []


def test_a_hash_is_the_same_in_every_process_and_encoding() -> None:
    """State is kept under these numbers."""
    texts = pa.array(["a", "", "Straße", "a"])
    assert hashes(texts).tolist() == hashes(texts.dictionary_encode()).tolist()
    assert hashes(np.array([0, 1, -1])).tolist() == WANTED
    assert hashes(np.array([False, True])).tolist() == WANTED[:2]


WANTED = [16294208416658607535, 10451216379200822465, 16490336266968443936]
