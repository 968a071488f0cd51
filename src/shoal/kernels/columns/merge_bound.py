"""How many new rows may wait until they are merged with state, on the local runtime and where it is imitated."""

FEW_ROWS = 1 << 16
"""The most rows that may wait to be merged while no result is due; or as many as the state has, if that is more."""
LEAST_ROWS = 1 << 12
"""So many rows may always wait."""
BLOCKS = 8
"""Rows of so many blocks may wait: under a low load blocks are small, and a window that closes has little to merge."""


def rows_that_may_wait(added: int) -> int:
    """How many rows may wait to be merged, if a block has just added some.

    >>> rows_that_may_wait(100), rows_that_may_wait(1000), rows_that_may_wait(100_000)
    (4096, 8000, 65536)
    """
    return max(LEAST_ROWS, min(FEW_ROWS, BLOCKS * added))
