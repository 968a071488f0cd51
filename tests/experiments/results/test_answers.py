"""Results are compared before numbers are shown: with the oracle, with other points, and from run to run."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.experiments.experiment import Answers, OracleVerdict, TrialOutcome
from shoal.experiments.results.answers import PointOutcomes, verdicts


def ran(digest: str = "", oracle: OracleVerdict = "not checked", failure: str = "") -> TrialOutcome:
    return TrialOutcome(answers={"t": digest} if digest else {}, oracle=oracle, failure=failure)


def judged(answers: Answers, *points: tuple[dict[str, Any], list[TrialOutcome]]) -> list[str]:
    given = {str(parameters): PointOutcomes(parameters, outcomes) for parameters, outcomes in points}
    return [verdict.text for verdict in verdicts(answers, given).values()]


A, B, C = {"engine": "a"}, {"engine": "b"}, {"engine": "c"}


@pytest.mark.parametrize(
    ("outcomes", "text"),
    [
        pytest.param([ran(oracle="equal")], "equal", id="equal"),
        pytest.param([ran(oracle="different")], "WRONG", id="different"),
        pytest.param([ran()], "not checked", id="never compared"),
        pytest.param([ran("x", "equal"), ran("x")], "equal", id="the same as the one that is equal"),
        pytest.param([ran("x", "equal"), ran("y")], "WRONG", id="changes from run to run"),
        pytest.param([ran(oracle="equal"), ran()], "not checked", id="one without a digest and not compared"),
        pytest.param([ran(failure="f"), ran("x")], "not checked", id="the one that would be compared has failed"),
        pytest.param([ran(failure="f"), ran(oracle="equal")], "equal", id="one failed, one is equal"),
        pytest.param([ran(failure="f")], "FAILED", id="failed"),
    ],
)
def test_results_are_compared_with_the_oracle(outcomes: list[TrialOutcome], text: str) -> None:
    assert judged("oracle", (A, outcomes)) == [text]


@pytest.mark.parametrize(
    ("points", "texts"),
    [
        pytest.param([(A, [ran("x")]), (B, [ran("x")])], ["same", "same"], id="all the same"),
        pytest.param([(A, [ran("x")])], ["not compared"], id="nothing to compare with"),
        pytest.param([(A, [ran()]), (B, [ran()])], ["", ""], id="no results at all"),
        pytest.param(
            [(A, [ran("x")]), (B, [TrialOutcome(unsupported="no joins")]), (C, [ran("x")])],
            ["same", "not supported", "same"],
            id="one engine cannot run the query",
        ),
        pytest.param(
            [(A, [ran("x")]), (B, [ran("y")]), (C, [ran("x")])], ["WRONG"] * 3, id="nobody knows who is right"
        ),
        pytest.param(
            [(A, [ran("x", "equal")]), (B, [ran("y")]), (C, [ran("x")])],
            ["equal", "WRONG", "same"],
            id="the oracle knows",
        ),
        pytest.param(
            [(A, [ran("x")]), (B, [ran("y")]), ({"engine": "duckdb"}, [ran("x")])],
            ["same", "WRONG", "same"],
            id="the batch engine knows",
        ),
        pytest.param([(A, [ran("x")]), (B, [ran()])], ["WRONG"] * 2, id="a table is missing"),
        pytest.param(
            [(A, [ran("x")]), (B, [ran(oracle="equal")])], ["not compared", "equal"], id="equal without a digest"
        ),
        pytest.param([(A, [ran("x"), ran("y")]), (B, [ran("x")])], ["WRONG", "not compared"], id="one changes"),
        pytest.param([(A, [ran("x")]), (B, [ran(failure="f")])], ["not compared", "FAILED"], id="one failed"),
        pytest.param([({"seed": 1}, [ran("x")]), ({"seed": 2}, [ran("y")])], ["not compared"] * 2, id="another input"),
        pytest.param(
            [({"seed": 1, "workers": n}, [ran("x")]) for n in (1, 2)], ["same"] * 2, id="the same input, other workers"
        ),
    ],
)
def test_points_with_the_same_input_must_have_the_same_results(
    points: list[tuple[dict[str, Any], list[TrialOutcome]]], texts: list[str]
) -> None:
    assert judged("same", *points) == texts


def test_a_reason_names_the_parties() -> None:
    points = {
        name: PointOutcomes({"engine": name}, [ran(digest)]) for name, digest in (("a", "x"), ("b", "y"), ("c", "x"))
    }
    reasons = {verdict.reason for verdict in verdicts("same", points).values()}
    assert reasons == {"results differ, and none is known to be right: a, c / b"}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.booleans()), min_size=1, max_size=6))
def test_no_point_is_right_whose_results_differ_from_a_right_one_of_the_same_input(
    drawn: list[tuple[str, str, bool]],
) -> None:
    points = {
        str(at): PointOutcomes(
            {"workers": at, "seed": seed}, [ran(digest, "equal" if known and digest == "x" else "not checked")]
        )
        for at, (seed, digest, known) in enumerate(drawn)
    }
    found = verdicts("same", points)
    for seed in "ab":
        right = {
            points[key].digests["t"]
            for key, verdict in found.items()
            if verdict.right and points[key].parameters["seed"] == seed
        }
        assert len(right) <= 1


def test_nothing_is_compared_if_so_declared() -> None:
    assert judged("none", (A, [ran("x")]), (B, [ran("y")])) == ["", ""]
    assert judged("none", (A, [ran("x"), ran("y")])) == [""]
