"""`shoal run --shed`: what a person sees of shed input, and what a program gets."""

import json
from pathlib import Path

from tests.cli.test_simulated_run import Said, ctrl_c_as_before, said

__all__ = ["ctrl_c_as_before", "said"]
YSB = ("run", "ysb", "--on", "reference", "--events", "20000")
SMALL = ("run", "traffic", "--on", "simulated", "--set", "regions=4", "--set", "vehicles=300", "--topology", "cores:2")
BUSY = ("--set", "work_factor=3000", "--set", "source=outside", "--rate", "1000,8000@1,1000@2", "--events", "12000")


def test_the_table_says_how_much_was_shed_and_what_results_are_worth(said: Said) -> None:
    code, out, err = said(*YSB, "--shed", "random:0.2", "--shed-when", "always")
    assert code == 0
    assert "shed (random:0.2): 4,002 rows, 20.0% of the input; results are not scaled" in out
    assert "query views: views = count() has 100 estimates, 95 % within" in out
    assert "no bound" not in err


def test_the_json_object_has_the_report(said: Said) -> None:
    code, out, _ = said(*YSB, "--shed", "utility:ad_id:0.25", "--shed-when", "always", "--json")
    shed = json.loads(out)["shed"]
    assert (code, shed["rows"], shed["share"], shed["when"]) == (0, 5000, 0.25, "always")
    assert shed["queries"][0]["reason"] == "rows are chosen by their utility, so results are biased"
    assert "shed" not in json.loads(said(*YSB, "--json")[1])


def test_an_overloaded_run_sheds_is_explained_and_repeats_itself(said: Said, tmp_path: Path) -> None:
    shed = ("--shed", "random:0.6", "--shed-above-ms", "400")
    options = ((), shed, (*shed, "--journal", str(tmp_path)))
    without, first, second = (json.loads(said(*SMALL, *BUSY, "--json", *each)[1]) for each in options)
    assert 0.1 < first["shed"]["share"] < 0.6
    assert first["latency_ms"]["max"] < without["latency_ms"]["max"]
    assert [each["began"] for each in first["shed"]["times"]] == [True, False]
    assert (first["shed"], first["result_digest"]) == (second["shed"], second["result_digest"])
    _, out, _ = said("explain", str(tmp_path))
    assert "shed input (random:0.6), since a backlog of" in out
    assert "shed no more input, since " in out


def test_whole_windows_name_the_first_one_that_is_missing(said: Said) -> None:
    slow = ("--events", "200000", "--set", "per_s=1000", "--shed", "windows:0.3", "--shed-when", "always")
    code, out, _ = said("run", "ysb", "--on", "local", *slow)
    assert code == 0
    assert "20,000 rows; 2 times of 10 s are missing, the first from 2024-01-01T00:02:30" in out
    assert "query views: views = count() is exact" in out
