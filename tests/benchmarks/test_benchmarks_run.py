"""The benchmarks: the quick mode of each runs to its end, and fails if its results are wrong."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
WITH_DATA = ("hop", "ysb", "fixed_cost", "scaling", "repartition")

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]


def run(name: str, *options: str) -> str:
    """What a benchmark prints."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{name}.py"), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("name", [*WITH_DATA, "window_growth", "soak", "local", "policies", "twin"])
def test_the_quick_mode_checks_its_results_and_keeps_its_numbers(name: str, tmp_path: Path) -> None:
    said = run(name, "--quick", *(["--data", str(tmp_path)] if name in WITH_DATA else []))
    written = re.search(r"written to (.+\.json)", said)
    assert written, said
    assert Path(written[1]).stat().st_size > 0


def test_the_event_cores_finish_every_task_at_the_same_time() -> None:
    said = run("event_core", "--quick")
    assert "14,412 events" in said, said


@pytest.mark.skipif((os.cpu_count() or 1) < 2 or shutil.which("cc") is None, reason="needs two cores and a compiler")
def test_an_access_to_a_shared_queue_costs_more_than_one_to_a_queue_of_its_own() -> None:
    said = run("queue_contention", "--quick")
    alone = re.search(r"one thread: ([\d.]+) ns", said)
    pair = re.search(r"^\| (?:near|far) \| [\d,]+ \| [\d.]+ \| ([\d.]+) \|", said, re.MULTILINE)
    assert alone, said
    assert pair, said
    assert 0 < float(alone[1]) < float(pair[1]), said


def test_the_page_says_what_the_measurements_say() -> None:
    run("report", "--check")
