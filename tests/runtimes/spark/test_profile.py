"""Profiles of Spark runs: which epochs are measured, and what they are made of."""

import pytest

from shoal.runtimes.spark.launch import SPARK
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount


@pytest.mark.slow
@pytest.mark.spark
def test_a_profile_of_spark_has_all_parts_of_its_epochs() -> None:
    assert SPARK.profile is not None
    job = workload("traffic").ready(0, Amount(24_000), {"regions": "3"}).job
    found = SPARK.profile(job.graph, job.sources, None)["epochs"]
    assert found["measured"] == sum(run["epochs"] for run in found["runs"]) >= 5
    kinds = {part["kind"] for part in found["parts"]}
    in_driver = {"worker of small epoch", "driver of small epoch"}
    assert kinds == {"reading task", "lane", "worker task", "driver", "between epochs"} | in_driver
    assert sum(run["small_epochs"] for run in found["runs"]) > 0
    assert not any(run["small_epochs"] for run in found["runs"] if not run["small"])
    assert found["small"].keys() == {"most_s", "most_sent_bytes", "most_state_bytes"}
    read = next(part for part in found["parts"] if part["kind"] == "reading task")
    assert read["events_in"] == sum(run["rows"] for run in found["runs"])
    assert all(part["seconds"] > 0 for part in found["parts"])
    assert found["error"] is not None
