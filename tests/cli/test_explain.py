"""`shoal explain` and `shoal policies`."""

import json
from pathlib import Path

import pytest
from tests.cli.test_main import shoal
from tests.control.test_story import STORY

from shoal.control.story import story_lines
from shoal.mechanisms.catalog import MECHANISMS
from shoal.policies.catalog import SUMMARIES
from shoal.session.journal import JournalFile
from shoal.storage.codec import plain


def test_explain_tells_the_story(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    JournalFile(str(tmp_path)).add(STORY)
    assert shoal(monkeypatch, "explain", str(tmp_path)) == 0
    assert capfd.readouterr().out.splitlines() == list(story_lines(STORY))
    assert shoal(monkeypatch, "explain", str(tmp_path), "--all") == 0
    assert capfd.readouterr().out.splitlines() == list(story_lines(STORY, every_move=True))
    assert shoal(monkeypatch, "explain", str(tmp_path), "--json") == 0
    assert json.loads(capfd.readouterr().out) == json.loads(json.dumps([plain(entry) for entry in STORY]))


def test_no_journal_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert shoal(monkeypatch, "explain", str(tmp_path)) == 2
    assert capfd.readouterr().err == (
        f"shoal: {tmp_path} has no journal; a run with --checkpoint DIR or --journal DIR keeps one there\n"
    )


def test_mechanisms_are_listed_with_where_they_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert shoal(monkeypatch, "mechanisms") == 0
    every = capfd.readouterr().out.splitlines()
    lines = [line for line in every if not line.startswith(" ")]
    assert [line.split()[0] for line in lines] == list(MECHANISMS)
    reasons = [line.split(": ") for line in every if line.startswith(" ")]
    assert "not on local" in {where.strip() for where, _ in reasons}
    assert [line.endswith("(default)") for line in lines] == [True] + [False] * (len(MECHANISMS) - 1)
    assert shoal(monkeypatch, "mechanisms", "--json") == 0
    listed = json.loads(capfd.readouterr().out)
    assert list(listed) == list(MECHANISMS)
    assert listed["megaphone"]["runtimes"][:2] == ["spark", "local"]
    assert listed["all-at-once"]["runtimes"] == ["spark", "local", "reference", "simulated"]
    for each in listed.values():
        assert {*each["runtimes"], *each["refused"]} == {"spark", "local", "reference", "simulated"}
        assert not set(each["runtimes"]) & set(each["refused"])


@pytest.mark.parametrize("on", ["spark", "local"])
def test_an_old_name_of_a_mechanism_is_refused_with_the_new_one(
    on: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert shoal(monkeypatch, "run", "traffic", "--on", on, "--policy", "guarded", "--mechanism", "lazy") == 2
    assert "shoal: mechanism 'lazy' is now named all-at-once\n" in capfd.readouterr().err


AWARE = ("energy-aware", "deadline-aware")


def test_policies_are_listed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert shoal(monkeypatch, "policies") == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(SUMMARIES)
    assert shoal(monkeypatch, "policies", "--json") == 0
    listed = json.loads(capfd.readouterr().out)
    assert {name: entry["kind"] for name, entry in listed.items()} == {
        **dict.fromkeys(("round-robin", "partition"), "static"),
        **dict.fromkeys(("greedy", "two-level", "metis", "dynamic-metis", "guarded", *AWARE), "adaptive"),
        **dict.fromkeys(("replicated", "uniform-grid", "history-grid", "swarm"), "spatial"),
        **dict.fromkeys(("single-queue", "node-queue"), "queue"),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--control", "moon=1"], "control has no setting 'moon'; there are trigger, window_s"),
        (["--control", "window_s=soon"], "window_s must be a number; got 'soon'"),
        (["--control", "patience=1.5"], "patience must be a whole number; got '1.5'"),
        (["--control", "window_s=0"], "window_s must be more than 0; got 0.0"),
        (["--control", "decision=maybe"], "decision must be one of benefit, always; got 'maybe'"),
        (["--control", "scale=8"], "the bounds of the number of workers are given as LEAST:MOST; got '8'"),
        (["--control", "rest_s=9", "--control", "most_rest_s=3"], "most_rest_s must be at least rest_s, 9.0; got 3.0"),
        (
            ["--policy", "node-queue"],
            "policy node-queue is for runtime local or simulated; workers of runtime spark share no queue",
        ),
        (
            ["--on", "local", "--journal", "x"],
            "the local runtime binds instances to workers only with a policy; give it one",
        ),
        (
            ["--on", "local", "--policy", "single-queue", "--conf", "queues=worker-queue"],
            "policy single-queue goes with queues=single-queue; got queues=worker-queue",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(
    options: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert shoal(monkeypatch, "run", "traffic", "--json", *options) == 2
    assert message in capfd.readouterr().err
