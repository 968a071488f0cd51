"""Outcomes of trials whose results were compared with the expected ones."""

from collections.abc import Mapping, Sequence

from shoal.experiments.experiment import TrialOutcome


def checked(
    metrics: Mapping[str, float],
    wrong: Sequence[str],
    answers: Mapping[str, str] | None = None,
    series: Mapping[str, list[list[float]]] | None = None,
) -> TrialOutcome:
    """The metrics of a trial with the right results; `wrong` says how they differ, and then there are no metrics.

    >>> checked({"rows_per_s": 5.0}, []).oracle
    'equal'
    >>> checked({"rows_per_s": 5.0}, ["expected 3 rows, got 2"]).metrics
    {}
    """
    if wrong:
        return TrialOutcome({}, answers or {}, "different", failure=f"wrong results: {'; '.join(wrong)}")
    return TrialOutcome(metrics, answers or {}, "equal", series or {})
