"""Flows: the listings of the original experiments run on our engines, with the same results."""

import re
import threading
from pathlib import Path

import pytest
from tests.experiments.coordination.flow_case import (
    ROWS,
    bids_as_parquet,
    csv_as_yaml,
    listing_iii_1,
    ran,
    written_nexmark,
)

from measures.coordination.tracing import overhead
from shoal.experiments.coordination.nodes.held_streams import HeldStreams
from shoal.experiments.coordination.nodes.node_trace import SET_DONE
from shoal.experiments.coordination.throughput import relative_deviation
from shoal.experiments.experiment import ExperimentFile, Task
from shoal.experiments.language.experiment_file import load_experiments
from shoal.experiments.requirements import lacking

ENGINES = ["shoal-local", "duckdb", pytest.param("shoal-simulated", marks=pytest.mark.slow)]
HEAD = """
stream-definitions:
- {stream-id: 1, name: Person, tuple-format: [
  {name: ts, type: timestamp}, {name: id, type: int}, {name: n, type: string}, {name: m, type: string},
  {name: c, type: string}, {name: city, type: string}, {name: state, type: string}]}
- {stream-id: 2, name: Auction, tuple-format: [
  {name: ts, type: timestamp}, {name: id, type: int}, {name: i, type: string}, {name: d, type: string},
  {name: b, type: long}, {name: r, type: int}, {name: e, type: timestamp}, {name: s, type: int}, {name: c, type: int}]}
- {stream-id: 3, name: Bid, tuple-format: [
  {name: ts, type: timestamp}, {name: auction, type: int}, {name: bidder, type: int}, {name: price, type: long}]}
- {stream-id: 9, name: Out, tuple-format: [{name: auction, type: int}]}
datasets: [{id: 8, file: bids.csv, type: csv}]
spequeries:
- {id: 1, name: q, output-stream-id: 9, sql-query: {shoal: select auction from Bid, duckdb: select auction from Bid}}
experiments:
- name: e
  flow:
"""


DATASETS = {
    "csv": "{id: 8, file: bids.csv, type: csv}",
    "yaml": "{id: 8, file: bids.yaml, type: yaml}",
    "parquet": "{id: 8, file: bids, format: parquet, stream: Bid}",
}


def flow_file(directory: Path, *tasks: str, dataset: str = "csv") -> ExperimentFile:
    """A file with a flow, and its dataset."""
    written_nexmark(directory / "bids.csv")
    if dataset == "yaml":
        csv_as_yaml(directory / "bids.csv", directory / "bids.yaml")
    elif dataset == "parquet":
        bids_as_parquet(directory / "bids.csv", directory / "bids")
    path = directory / "f.yaml"
    head = HEAD.replace(DATASETS["csv"], DATASETS[dataset])
    path.write_text(head + "".join(f"  - {{{task}}}\n" for task in tasks))
    return load_experiments(path)


@pytest.mark.parametrize("engine", ENGINES)
def test_listing_iii_1_has_a_set_for_every_iteration_and_the_results_of_every_other_engine(
    engine: str, tmp_path: Path
) -> None:
    file = listing_iii_1(tmp_path)
    for point, output in enumerate(("OutBid", "OutQuery2")):
        outcome, right = ran(file, point, engine=engine), ran(file, point, engine="duckdb")
        assert not outcome.failure
        assert outcome.answers == right.answers
        assert set(outcome.answers) == {f"{output} at node 3"}
        assert outcome.metrics["received"] == outcome.metrics["node2.received"] == 3 * ROWS
        assert outcome.metrics["sets"] == 2
        assert outcome.metrics["tps"] > 0
        assert sum(line.startswith(f"2 {SET_DONE} ") for line in outcome.trace) == 3


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["shoal-local", "duckdb", "shoal-simulated"])
def test_listing_iii_1_runs_as_it_is_printed(engine: str, tmp_path: Path) -> None:
    outcome = ran(listing_iii_1(tmp_path, quiet_ms=2000, loops=10), engine=engine)
    assert (outcome.failure, outcome.metrics["sets"]) == ("", 5)


def test_loops_nest_and_tasks_are_begun_in_order(tmp_path: Path) -> None:
    file = flow_file(
        tmp_path,
        "task: loopTasks, arguments: [2, [{task: loopTasks, arguments: [3, [{task: traceTuple, node: 1, "
        "arguments: [7, [a]]}]]}, {task: traceTuple, node: 1, arguments: [8]}]]",
    )
    begun: list[str] = []
    outcome = ran(file, watch=lambda _, task: begun.append(task.name))
    assert [line.split()[1] for line in outcome.trace] == ["7", "7", "7", "8"] * 2
    assert begun.count("traceTuple") == 8
    assert outcome.trace[0].endswith(" a")


def test_parallel_tasks_go_on_at_the_same_time(tmp_path: Path) -> None:
    """Node 3 waits for rows that are sent only because nobody waits for node 3 before."""
    file = flow_file(
        tmp_path,
        "task: addNextHop, node: 1, arguments: [3, 3]",
        "task: runParallel, arguments: [[{task: retWhenReceived, node: 3, arguments: [400]}, "
        "{task: sendDsAsSpecificStream, node: 1, arguments: [8, 3]}]]",
        "task: retReceivedXTuples, node: 3, arguments: [920], parallel: true",
        "task: sendDsAsConstantStream, node: 1, arguments: [8, 1000000]",
    )
    outcome = ran(file, timeout_s=20)
    assert (outcome.failure, outcome.metrics["node3.received"]) == ("", 920)


@pytest.mark.parametrize(
    "send",
    [
        "sendDsAsStream, arguments: [8]",
        "sendDsAsStream, arguments: [8, 1, 50000]",
        "sendDsAsStream, arguments: [8, 1, timestamps]",
        "sendDsAsConstantStream, arguments: [8, 50000]",
        "sendDsAsVariableOnOffStream, arguments: [8, 100000, 1, 100, 200, 50]",
        "sendDsAsSpecificStream, arguments: [8, 3]",
    ],
)
@pytest.mark.parametrize("dataset", DATASETS)
def test_all_ways_to_send_a_dataset_give_the_same_results(dataset: str, send: str, tmp_path: Path) -> None:
    tasks = [
        "task: addNextHop, node: 1, arguments: [[1, 2, 3], 2]",
        "task: deployQueries, node: 2, arguments: [1]",
        "task: startRuntimeEnv, node: 2",
    ]
    expected = ran(flow_file(tmp_path, *tasks, "task: sendDsAsStream, node: 1, arguments: [8]"), engine="duckdb")
    name, _, rest = send.partition(",")
    outcome = ran(flow_file(tmp_path, *tasks, f"task: {name}, node: 1,{rest}", dataset=dataset))
    assert (outcome.failure, outcome.answers) == ("", expected.answers)
    assert set(outcome.answers) == {"Out at node 2"}


def test_kept_rows_are_processed_when_a_stream_goes_on(tmp_path: Path) -> None:
    file = flow_file(
        tmp_path,
        "task: addNextHop, node: 1, arguments: [3, 2]",
        "task: bufferStream, node: 2, arguments: [3]",
        "task: writeStreamToCsv, node: 2, arguments: [3, kept.csv]",
        "task: sendDsAsSpecificStream, node: 1, arguments: [8, 3]",
        "task: resumeStream, node: 2, arguments: [3]",
    )
    outcome = ran(file)
    assert not outcome.failure
    assert len((tmp_path / "kept.csv").read_text().splitlines()) == 461


def test_a_task_that_fails_is_the_reason_with_node_and_line(tmp_path: Path) -> None:
    file = flow_file(tmp_path, "task: sendNRowsDsAsSpecificStream, node: 1, arguments: [8, 3, 100000]")
    reason = r"node 1 in task sendNRowsDsAsSpecificStream \(.*f\.yaml line \d+\): .*100000 rows of stream 3; it has 460"
    assert re.fullmatch(reason, ran(file).failure)


def test_a_flow_that_takes_too_long_says_what_it_waited_for(tmp_path: Path) -> None:
    file = flow_file(tmp_path, "task: retWhenReceived, node: 3, arguments: [5]")
    assert re.fullmatch(
        r"it took too long: node 3 in task retWhenReceived \(.*line \d+\) was not done",
        ran(file, timeout_s=0.2).failure,
    )


def test_a_task_that_no_engine_can_do_is_refused_before_anything_starts(tmp_path: Path) -> None:
    file = flow_file(
        tmp_path,
        "task: deployQueries, node: 2, arguments: [1]",
        "task: moveQueryState, node: 2, arguments: [1, 2]",
    )
    (line,) = lacking(file)
    assert re.match(r".*f\.yaml line \d+: task moveQueryState cannot be done with engine shoal-local; there are ", line)


def test_the_deviation_of_one_set_is_zero() -> None:
    assert relative_deviation([5.0]) == 0.0
    assert Task("wait").ack


def test_results_are_the_same_with_and_without_tracing() -> None:
    outcome = overhead(events=20_000, pairs=1)
    assert not outcome.failure
    assert outcome.metrics["records"] > 0


def test_a_task_that_nobody_waits_for_fails_the_flow_all_the_same(tmp_path: Path) -> None:
    file = flow_file(
        tmp_path,
        "task: sendNRowsDsAsSpecificStream, node: 1, arguments: [8, 3, 100000], ack: false",
        "task: traceTuple, node: 1, arguments: [7]",
    )
    assert re.fullmatch(r"node 1 in task sendNRows.*: .*100000 rows of stream 3; it has 460", ran(file).failure)


def test_a_failure_that_nobody_waits_for_ends_what_the_flow_waits_for(tmp_path: Path) -> None:
    file = flow_file(
        tmp_path,
        "task: sendNRowsDsAsSpecificStream, node: 1, arguments: [8, 3, 100000], ack: false",
        "task: retWhenReceived, node: 3, arguments: [5]",
    )
    assert ran(file, timeout_s=20).failure.endswith("it has 460")


def test_tasks_without_ack_are_awaited_at_the_end(tmp_path: Path) -> None:
    file = flow_file(
        tmp_path,
        "task: batchTasks, node: 1, ack: false, arguments: [[{task: retWhenReceived, arguments: [460]}, "
        "{task: traceTuple, arguments: [7]}]]",
        "task: addNextHop, node: 2, arguments: [3, 1]",
        "task: sendDsAsSpecificStream, node: 2, arguments: [8, 3]",
    )
    outcome = ran(file, timeout_s=20)
    assert outcome.failure == ""
    assert any(line.startswith("1 7 ") for line in outcome.trace)


LISTS = {
    "lists inside runParallel": "task: runParallel, arguments: [[{first}, {second}]]",
    "a loop that is parallel": "{first}, parallel: true}}\n  - {{{second}",
}


@pytest.mark.parametrize("both", [pytest.param(both, id=name) for name, both in LISTS.items()])
def test_lists_are_done_at_the_same_time_each_in_order(both: str, tmp_path: Path) -> None:
    """Each list waits for rows that only the other one sends."""
    loop = (
        "task: loopTasks, arguments: [2, [{{task: sendNRowsDsAsSpecificStream, node: {one}, "
        "arguments: [8, {stream}, 5]}}, {{task: retWhenReceived, node: {one}, arguments: [5]}}, "
        "{{task: traceTuple, node: {one}, arguments: [7]}}]]"
    )
    first, second = loop.format(one=1, stream=3), loop.format(one=2, stream=2)
    if "runParallel" in both:
        first, second = f"{{{first}}}", f"{{{second}}}"
    file = flow_file(
        tmp_path,
        "task: addNextHop, node: 1, arguments: [3, 2]",
        "task: addNextHop, node: 2, arguments: [2, 1]",
        both.format(first=first, second=second),
    )
    outcome = ran(file, timeout_s=20)
    assert outcome.failure == ""
    for node in ("1", "2"):
        assert sum(line.startswith(f"{node} 7 ") for line in outcome.trace) == 2


@pytest.mark.parametrize("nodes", ["in-process", "processes"])
def test_a_node_that_is_told_of_a_stop_has_all_rows_before_it_and_none_after(nodes: str, tmp_path: Path) -> None:
    file = flow_file(
        tmp_path,
        "task: addNextHop, node: 1, arguments: [3, 2]",
        "task: sendNRowsDsAsSpecificStream, node: 1, arguments: [8, 3, 40]",
        "task: stopStream, node: 1, arguments: [3, 2]",
        "task: sendNRowsDsAsSpecificStream, node: 1, arguments: [8, 3, 60]",
        "task: traceTuple, node: 2, arguments: [7]",
        "task: resumeStream, node: 1, arguments: [3]",
    )
    outcome = ran(file, nodes=nodes)
    assert outcome.failure == ""
    at_2 = [line.split() for line in outcome.trace if line.startswith("2 ")]
    assert [(line[1], line[-1]) for line in at_2] == [("1", "40"), ("222", "Bid"), ("7", at_2[2][-1]), ("1", "60")]
    assert at_2[1][4] == "1"


def test_rows_that_come_while_kept_ones_go_on_are_neither_lost_nor_overtake_them() -> None:
    """Every thread passes on what it has in order, while another one holds the stream and lets it go on."""
    held, number, threads_of = HeldStreams(), 2000, 3
    seen: dict[int, list[int]] = {each: [] for each in range(threads_of)}
    done = threading.Event()

    def push(mine: int) -> None:
        for row in range(number):
            held.pass_or_keep(3, (mine, row), lambda _, rows: seen[rows[0]].append(rows[1]))

    def switch() -> None:
        while not done.is_set():
            held.hold([3])
            held.resume([3])

    switching = [threading.Thread(target=switch) for _ in range(2)]
    pushing = [threading.Thread(target=push, args=(each,)) for each in range(threads_of)]
    for thread in (*switching, *pushing):
        thread.start()
    for thread in pushing:
        thread.join()
    done.set()
    for thread in switching:
        thread.join()
    held.resume([3])
    assert seen == {each: list(range(number)) for each in range(threads_of)}
