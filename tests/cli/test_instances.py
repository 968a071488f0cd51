"""`shoal instances`: what it says of a run, and what it leaves in its mailbox."""

import json
from pathlib import Path

import pytest
from tests.cli.test_queries import GRAPH, Job, job, shoal

from shoal.compiler.program import compile_graph
from shoal.model.control.partitioning import DECLARED, Partitioning, Split, operator_of
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import round_robin
from shoal.runtimes.spark.state.checkpoint import Checkpoint, Manifest
from shoal.workloads.traffic.queries import vehicles

__all__ = ["job"]
ONCE = Graph.of([vehicles().partition_by("region", groups=2).key_by("vehicle").deduplicate(5).sink("once")])
FIRST = GRAPH.stateful_instances[0]


def committed(root: Path, graph: Graph, partitioning: Partitioning = DECLARED) -> None:
    """Write what an epoch leaves."""
    instances = compile_graph(graph, partitioning).instances
    binding = round_robin(graph, 2).fitted(partitioning.instances(graph))
    checkpoint = Checkpoint(str(root))
    checkpoint.write_graph(graph)
    checkpoint.write_manifest(
        Manifest(
            epoch=7,
            graph=graph.digest,
            workers=2,
            binding=tuple(int(binding.worker_of.get(instance, 0)) for instance in instances),
            watermarks_us={},
            states=(),
            partitioning=partitioning,
        )
    )


def test_instances_are_listed_with_their_workers_and_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = ONCE.stateful_instances[0]
    committed(tmp_path, ONCE, DECLARED.after(Split(first), ONCE))
    assert shoal(monkeypatch, "instances", "list", tmp_path) == 0
    operator = operator_of(first)
    assert capsys.readouterr().out.splitlines() == [
        "instance        worker  slots  what",
        f"{operator}/0       0     32  deduplicate of once, instance 0",
        f"{operator}/1       1     64  deduplicate of once, instance 1",
        f"{operator}/2       0     32  deduplicate of once, instance 2",
    ]
    assert shoal(monkeypatch, "instances", "list", tmp_path, "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["epoch"], listed["version"], len(listed["instances"])) == (7, 1, 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("split", FIRST, "--parts", 3), f"split {FIRST} into 3 parts in epoch", id="split"),
        pytest.param(
            ("repartition", "avg_speed[0]", "--groups", 4),
            f"divided {operator_of(FIRST)} among 4 instances in epoch",
            id="repartition by the name of a query",
        ),
    ],
)
def test_a_running_job_divides_instances_on_request(
    arguments: tuple[object, ...],
    said: str,
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, *others = arguments
    assert shoal(monkeypatch, "instances", command, job.root, *others) == 0
    assert said in capsys.readouterr().out
    assert job.position.partitioning.version == 1


def test_instances_that_were_split_are_merged_again(
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shoal(monkeypatch, "instances", "split", job.root, FIRST) == 0
    second = f"{operator_of(FIRST)}/1"
    assert shoal(monkeypatch, "instances", "merge", job.root, FIRST, second) == 0
    assert f"merged {second} into {FIRST} in epoch" in capsys.readouterr().out
    assert job.position.partitioning.entries == ()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        pytest.param(("split", "nobody/0"), "there is no operator 'nobody' that holds state", id="unknown"),
        pytest.param(("split", FIRST, "--parts", 99), "can be split into 2 to 64 parts; got 99", id="too many parts"),
        pytest.param(("merge", FIRST), "merge needs two or more different instances", id="one instance"),
        pytest.param(("repartition", "nobody", "--groups", 2), "'nobody' is neither an operator nor a", id="no query"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    arguments: tuple[object, ...],
    reason: str,
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, *others = arguments
    assert shoal(monkeypatch, "instances", command, job.root, *others) == 2
    assert reason in capsys.readouterr().err
    assert job.position.partitioning == DECLARED
