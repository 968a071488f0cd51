"""Every workload on the local runtime against its oracle and against Spark, with every scheduling and memory."""

import dataclasses
import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.end_to_end.test_workloads import SMALL, assert_right
from tests.runtimes.local.kinds import KINDS
from tests.runtimes.local.scribbling import scribbled
from tests.small_city import digest

from shoal.runtimes.local.memory.blocks import MEMORIES
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.run import Run, start
from shoal.workloads.workload import Ready

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW_EVENTS = {1: 600, 7: 2_000}
"""Events where blocks are so small that many would take long, by the events of a block."""
COMPARED_BY_DEFAULT = ("ysb",)


@dataclasses.dataclass(frozen=True)
class Case:
    """A workload and how it is run."""

    name: str
    kind: str
    workers: int
    settings: dict[str, Any]

    def run(self, seed: int = 0) -> tuple[Run, Ready]:
        rows = self.settings["block_rows"]
        small = SMALL[self.name]
        ready = dataclasses.replace(small, events=min(FEW_EVENTS.get(rows, small.events), small.events)).ready(seed)
        settings = LocalSettings(**KINDS[self.kind], **self.settings)
        with scribbled():
            run = start(ready.job, on="local", workers=self.workers, local=settings)
        run.wait()
        return run, ready


def dealt() -> list[Case]:
    """Every workload and every way to share work out at least once, with settings drawn at random."""
    draw = random.Random(20)
    kinds = draw.sample(sorted(KINDS), len(KINDS))
    names = draw.sample(sorted(SMALL), len(SMALL))
    rows = [7, 100, 1_000, 8_192]
    return [
        Case(
            names[number % len(names)],
            kinds[number % len(kinds)],
            workers=1 + number % 3,
            settings={
                "memory": draw.choice(MEMORIES),
                "block_rows": rows[number % len(rows)],
                "chunk_blocks": draw.randint(1, 3),
                "active_chunks": draw.randint(1, 3),
                "entry_rows": draw.choice([5, 256]),
                "processor_nodes": draw.randint(1, 2),
                "chained": draw.random() < 0.7,
            },
        )
        for number in range(max(len(kinds), len(names)))
    ]


def test_every_workload_and_every_way_to_share_work_out_is_dealt() -> None:
    cases = dealt()
    assert {case.name for case in cases} == set(SMALL)
    assert {case.kind for case in cases} == set(KINDS)
    for setting in ("memory", "chained", "processor_nodes"):
        assert len({case.settings[setting] for case in cases}) == 2


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.name}, {case.kind}") for case in dealt()])
def test_a_workload_equals_its_oracle(case: Case) -> None:
    run, ready = case.run()
    assert_right(run, ready)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SMALL)
def test_a_workload_equals_its_oracle_while_everybody_waits_for_room(name: str, kind: str) -> None:
    for workers in (1, 2):
        for rows in (1, 7, 8_192):
            settings = {"block_rows": rows, "chunk_blocks": 1, "active_chunks": 1, "processor_nodes": workers}
            for memory in MEMORIES if rows == 7 else MEMORIES[:1]:
                run, ready = Case(name, kind, workers, {**settings, "memory": memory}).run()
                assert_right(run, ready)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in COMPARED_BY_DEFAULT else (pytest.mark.slow, pytest.mark.timeout(300)))
        for name in SMALL
    ],
)
def test_a_workload_has_the_digest_it_has_on_spark(name: str, spark: "SparkSession") -> None:
    ready = dataclasses.replace(SMALL[name], rows_per_epoch=SMALL[name].events).ready(seed=1)
    there = start(ready.job, spark=spark, workers=2)
    there.wait()
    here = [
        Case(name, "state-based", 2, {"block_rows": 131_072}),
        Case(name, "worker-queue", 3, {"block_rows": 512, "memory": "queue"}),
        Case(name, "threads", 1, {"block_rows": 512, "chained": False}),
    ]
    for case in here:
        run, _ = case.run(seed=1)
        assert run.consumed == there.consumed
        assert digest(run) == digest(there)
