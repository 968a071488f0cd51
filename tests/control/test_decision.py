"""The decision model against the study's use case (tables IV.13 to IV.15)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.control.decision import Choice, Model, amortisation_s, best, cost
from shoal.errors import ConfigError

SCORES = [(1.5, 1.0, 2.7), (1.6, 1.6, 2.5), (1.4, 2.5, 3.0), (1.7, 2.8, 2.9)]
"""Scores of the hosts C, where the operator is, D and E in four runs."""


def choices(scores: tuple[float, float, float], cost_of_d: float) -> list[Choice]:
    c, d, e = scores
    return [Choice(0, c), Choice(1, d, cost_of_d), Choice(2, e, 0.5)]


@pytest.mark.parametrize(
    ("cost_of_d", "benefits"),
    [
        pytest.param(0.15, [0.85, 1.36, 2.125, 2.38], id="as the study's results were computed"),
        pytest.param(0.1, [0.9, 1.44, 2.25, 2.52], id="as the study's parameters say"),
    ],
)
def test_the_study_s_use_case(cost_of_d: float, benefits: list[float]) -> None:
    found = [choices(scores, cost_of_d) for scores in SCORES]
    assert [run[1].benefit for run in found] == pytest.approx(benefits)
    assert [run[2].benefit for run in found] == pytest.approx([1.35, 1.25, 1.5, 1.45])
    assert ["CDE"[best(run).worker] for run in found] == ["C", "C", "D", "D"]
    assert ["CDE"[max(run, key=lambda choice: choice.score).worker] for run in found] == ["E"] * 4


@pytest.mark.parametrize(("until_s", "scores"), list(zip((1e3, 2e3, 3e3, 4e3), SCORES, strict=True)))
@pytest.mark.parametrize("cost_of_d", [0.1, 0.15])
def test_the_model_gives_the_study_s_table_by_time_and_rate(
    until_s: float, scores: tuple[float, float, float], cost_of_d: float
) -> None:
    """Moves that take a share of the amortisation time of table IV.14 delay that share of the outputs until then."""
    model, steady, outputs_per_s = Model(least_s=1.0, most_s=until_s), [2.0, 2.0], 40.0
    found = [
        Choice(0, scores[0]),
        *(
            model.choice(number, scores[number], steady, outputs_per_s, share * until_s)
            for number, share in ((1, cost_of_d), (2, 0.5))
        ),
    ]
    expected = choices(scores, cost_of_d)
    assert [each.amortisation_s for each in found] == pytest.approx([0.0, until_s, until_s])
    assert [each.cost for each in found] == pytest.approx([each.cost for each in expected])
    assert [each.benefit for each in found] == pytest.approx([each.benefit for each in expected])
    assert best(found).worker == best(expected).worker


def test_of_equals_the_current_worker_wins() -> None:
    assert best([Choice(3, 1.0), Choice(1, 1.0)]).worker == 3


def test_an_instance_without_outputs_costs_nothing_to_move() -> None:
    assert cost(1.0, 0.0, 0.0) == 0.0


def test_a_worker_whose_scores_vary_has_to_pay_sooner() -> None:
    model = Model(least_s=1.0, most_s=61.0)
    steady = model.choice(1, 2.0, [2.0, 2.0, 2.0], 100.0, 0.5)
    shaky = model.choice(1, 2.0, [1.0, 3.0], 100.0, 0.5)
    assert (steady.amortisation_s, shaky.amortisation_s) == (61.0, 31.0)
    assert steady.benefit > shaky.benefit
    assert steady.cost == pytest.approx(0.5 / 61)


@given(st.floats(0, 1000), st.floats(0.1, 10), st.floats(10, 100))
def test_amortisation_stays_within_its_bounds(deviation: float, least_s: float, most_s: float) -> None:
    assert least_s <= amortisation_s(deviation, least_s, most_s) <= most_s


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"least_s": 0.0}, "a move must pay off within a time from least_s to most_s; got 0.0 to 60.0"),
        ({"least_s": 9.0, "most_s": 3.0}, "a move must pay off within a time from least_s to most_s; got 9.0 to 3.0"),
        ({"weight": -1.0}, "weight must be 0 or more; got -1.0"),
    ],
)
def test_a_model_that_makes_no_sense_is_a_clear_error(values: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Model(**values)
    assert str(caught.value) == message
