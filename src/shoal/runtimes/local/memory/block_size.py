"""How many events a source puts into a block: what is due while it keeps up, large blocks when it is behind."""

SHARE = 0.5
"""The share of the target latency that the events of one block may span."""
BEHIND = 4.0
"""A source whose oldest event has waited for so many times the target is behind: throughput comes first."""


def block_rows(due_rows: int, waited_s: float, target_s: float, most_rows: int) -> int:
    """The events per block, if so many are due and the oldest has waited for some time.

    A block of everything that is due would delay its first events by the time to make and process the last. So a block
    spans a share of the target, and the next operator works on one while the source makes the next.

    >>> block_rows(600, 0.0003, 0.002, 131_072)
    600
    >>> block_rows(60_000, 0.003, 0.002, 131_072)
    20000
    >>> block_rows(900_000, 0.03, 0.002, 131_072)
    131072
    """
    if waited_s > BEHIND * target_s:
        return most_rows
    spans = max(1.0, waited_s / (SHARE * target_s))
    return max(1, min(most_rows, round(due_rows / spans)))
