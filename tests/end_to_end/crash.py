"""Runs of the small city as a user's process, and ways to kill them."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tests.small_city import EVENTS, REGIONS, VEHICLES, city

from shoal.connectors.sinks import ParquetSink
from shoal.session.digest import result_digest
from shoal.session.run import Run, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOAL = str(Path(sys.executable).with_name("shoal"))
FAULTS = str(Path(__file__).parent / "faults")
KILLED = -9


@dataclass(frozen=True)
class Fault:
    """A call at which a process, its executor, or the whole run, is killed with SIGKILL."""

    function: str
    call: int = 1
    when: Literal["before", "after"] = "before"
    victim: Literal["process", "executor", "run"] = "run"


@dataclass(frozen=True)
class Workspace:
    """A directory with one run's checkpoint and results."""

    root: Path
    rows_per_epoch: int = 1_500

    def command(self, *options: str) -> list[str]:
        amount = ["--events", str(EVENTS), "--epoch-rows", str(self.rows_per_epoch)]
        settings = ["--set", f"regions={REGIONS}", "--set", f"vehicles={VEHICLES}"]
        kept = ["--checkpoint", str(self.root / "checkpoint"), "--sink", f"parquet:{self.root / 'results'}"]
        return [SHOAL, "run", "traffic", *amount, *settings, *kept, "--json", *options]

    def run(self, fault: Fault | None = None, *options: str) -> "subprocess.CompletedProcess[str]":
        """Run to the end, or to the fault."""
        return subprocess.run(
            self.command(*options),
            env=self.environment(fault),
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )

    def finish(self, spark: "SparkSession") -> Run:
        """Go on to the end in the session of the tests, which saves starting another."""
        job = city(rows_per_epoch=self.rows_per_epoch).job
        run = start(job, spark=spark, checkpoint=str(self.root / "checkpoint"), sink=self.sink)
        run.wait()
        return run

    def environment(self, fault: Fault | None) -> dict[str, str]:
        if fault is None:
            return dict(os.environ)
        calls = self.root / "calls"
        calls.mkdir(parents=True, exist_ok=True)
        for old in calls.iterdir():
            old.unlink()
        return {**os.environ, "PYTHONPATH": FAULTS, "FAULT": json.dumps(asdict(fault)), "FAULT_DIR": str(calls)}

    @property
    def struck(self) -> bool:
        """Whether the fault of the last run came to pass."""
        return (self.root / "calls" / "killed").exists()

    @property
    def sink(self) -> ParquetSink:
        return ParquetSink(str(self.root / "results"))

    def digest(self) -> str:
        return result_digest({name: self.sink.table(name) for name in self.sink.names()})


def summary(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """What a finished run says of itself."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
