"""What something costs, by pairs of runs: one with it and one without it, in turns.

The machine's speed changes from minute to minute, and hardly within a pair; so costs of a few percent show in the
ratios of pairs, and not in averages.
"""

from collections.abc import Callable, Mapping, Sequence

from shoal.experiments.results.sample_statistics import Sample

Run = Callable[[bool], Mapping[str, float]]


def in_pairs(run: Run, pairs: int) -> tuple[list[Mapping[str, float]], list[Mapping[str, float]]]:
    """What runs with it measured, and those without it, pair by pair; either kind is the first of a pair as often.

    The first pair is left out: it also loads and compiles.

    >>> order = []
    >>> _ = in_pairs(lambda on: order.append(on) or {}, pairs=2)
    >>> order
    [False, True, True, False, False, True]
    """
    found: dict[bool, list[Mapping[str, float]]] = {True: [], False: []}
    for at in range(2 * pairs + 2):
        on = at % 4 in (1, 2)
        measured = run(on)
        if at > 1:
            found[on].append(measured)
    return found[True], found[False]


def overhead_percent(name: str, on: Sequence[float], off: Sequence[float]) -> dict[str, float]:
    """The median of the pairs' ratios, in percent more, and the interval that it lies in.

    >>> overhead_percent("cpu", [1.02, 1.03, 1.01], [1.0, 1.0, 1.0])["cpu.percent"]
    2.0
    """
    ratios = Sample(tuple(a / b for a, b in zip(on, off, strict=True)))
    return {
        f"{name}.percent": round(100 * (ratios.median - 1), 3),
        f"{name}.low": round(100 * (ratios.interval.low - 1), 3),
        f"{name}.high": round(100 * (ratios.interval.high - 1), 3),
    }
