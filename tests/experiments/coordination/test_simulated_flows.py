"""Flows on a simulated network: queries move between hosts in simulated time, and no result changes."""

import re
from pathlib import Path

import pytest
from tests.experiments.coordination.flow_case import FIRST_US, LISTINGS, ran

from shoal.experiments.experiment import ExperimentFile, TrialOutcome
from shoal.experiments.language.experiment_file import load_experiments
from shoal.experiments.requirements import lacking

MECHANISMS = (
    "all-at-once",
    "rhino",
    "megaphone",
    "meces",
    "lazy-latency",
    "lazy-utility",
    "state-recreation",
    "checkpoint-assisted",
)
EXTERNAL = "external-timestamp-field: B.dateTime, size: 200000, size-type: EXTERNAL_TIME, jump: 100000"
BEFORE = (
    "{task: deployQueries, arguments: [5, 144]}",
    "{task: addPotentialHost, arguments: [[2, 3, 4], 144]}",
    "{task: addSinkNode, arguments: [5, 144]}",
    "{task: addSourceNode, arguments: [1, 144]}",
    "{task: adapt, arguments: [144, 3, drop-state]}",
    "{task: sendDsAsSpecificStream, node: 1, arguments: [45, 2]}",
)
AFTER = ("{task: retEndOfStream, node: 5, arguments: [20000]}",)


def written_datasets(directory: Path, auctions: int = 100, bids: int = 3000) -> None:
    rows = (f"2,{FIRST_US + n},{n},item {n % 7},text,{n},{n},{FIRST_US + 10**9},{n},10" for n in range(auctions))
    (directory / "auction-10000.csv").write_text("\n".join(rows) + "\n")
    rows = (f"3,{FIRST_US + 10**6 + n * 1000},{(n * 7919) % auctions},{n % 9},{n % 1000}" for n in range(bids))
    (directory / "nexmark-dataset-1000-unique-bidders-100000-rows.csv").write_text("\n".join(rows) + "\n")


def listing(directory: Path, name: str = "A.1", **less: str) -> ExperimentFile:
    """Listing A.1 with the queries of a listing, fewer rows and shorter waits."""
    text = (LISTINGS / "A.1.yaml").read_text()
    if name != "A.1":
        at, end = text.index("spequeries:"), text.index("plots:")
        query = (LISTINGS / f"{name}.yaml").read_text()
        text = text[:at] + query[query.index("spequeries:") :] + text[end:]
    smaller = {
        "[45, 2, 1000]": "[45, 2, 100]",
        "[10000]": "[1000]",
        "[94, 3, 100000]": "[94, 3, 3000]",
        "[100000, 144, join]": "[4000, 144, join]",
        "[100000000]": "[200000]",
    }
    for printed, other in {**smaller, **less}.items():
        assert printed in text
        text = text.replace(printed, other)
    written_datasets(directory)
    path = directory / f"{name}.yaml"
    path.write_text(text)
    return load_experiments(path)


def moving(directory: Path, *tasks: str, network: str = "1000000", query: str = "A.4") -> ExperimentFile:
    """The join and aggregate of a listing, by event time, in a flow of these tasks."""
    text = (LISTINGS / "A.1.yaml").read_text()
    made = (LISTINGS / f"{query}.yaml").read_text()
    made = re.sub(r"external-timestamp-field: '', size: \d{5,6},\s+emit-type: PROC[^}]*", EXTERNAL, made)
    flow = "".join(f"  - {task}\n" for task in (*BEFORE, *tasks, *AFTER))
    experiments = f"experiments:\n- name: e\n  set: {{m: no-migration}}\n  answers: none\n  flow:\n{flow}"
    text = (
        text[: text.index("experiments:")]
        + experiments
        + text[text.index("datasets:") : text.index("spequeries:")]
        + made[made.index("spequeries:") :]
        + text[text.index("network:") :].replace("10000000", network)
    )
    written_datasets(directory)
    path = directory / "f.yaml"
    path.write_text(text)
    return load_experiments(path)


BIDS = "{task: sendDsAsConstantStream, node: 1, arguments: [94, 1000], parallel: true}"
MID_STREAM = (BIDS, "{task: wait, arguments: [1000000]}", "{task: adapt, arguments: [144, 4, m]}")


@pytest.mark.parametrize("name", ["A.1", "A.4"])
def test_the_listing_runs_and_its_migration_changes_no_result(name: str, tmp_path: Path) -> None:
    file = listing(tmp_path, name)
    assert list(lacking(file)) == []
    outcomes = {m: ran(file, migration_mechanism=m) for m in ("no-migration", "all-at-once", "lazy-latency")}
    assert [each.failure for each in outcomes.values()] == [""] * 3
    still, moved, _ = outcomes.values()
    assert still.metrics["results"] > 0
    assert still.metrics["node3.received"] == 10 * 100 + 3000
    assert still.metrics["node5.received"] == still.metrics["results"]
    assert moved.metrics["migration.bytes"] > 0
    assert moved.metrics["migration.freeze_ms"] > 0
    assert {each.answers["NewName0-144 at node 5"] for each in outcomes.values()} == set(still.answers.values())
    assert len(still.series["plot1"]) > 0


def test_queries_of_the_other_listings_run_in_the_flow_of_the_first(tmp_path: Path) -> None:
    join = ran(listing(tmp_path, "A.3"), migration_mechanism="rhino")
    assert (join.failure, join.metrics["results"]) == ("", 30_000)
    text = {"[4000, 144, join]": "[3000, 144, window]", "task: retWhenReceived\n        arguments: [1000]": WAITED}
    grouped = ran(listing(tmp_path, "A.2", **text), migration_mechanism="rhino")
    assert grouped.failure == ""
    assert grouped.metrics["results"] > 0


WAITED = "task: wait\n        arguments: [1000]"


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> TrialOutcome:
    """Results while nothing moves."""
    outcome = ran(moving(tmp_path_factory.mktemp("still"), *MID_STREAM))
    assert outcome.failure == ""
    assert outcome.metrics["results"] > 100
    return outcome


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_query_that_moves_while_rows_come_has_the_results_of_one_that_stays(
    mechanism: str, right: TrialOutcome, tmp_path: Path
) -> None:
    outcome = ran(moving(tmp_path, *MID_STREAM), m=mechanism)
    assert (outcome.failure, outcome.answers) == ("", right.answers)
    assert outcome.metrics["migration.moves"] == 2
    assert outcome.metrics["node4.received"] > 0
    assert "lost.rows" not in outcome.metrics


STATE_MOVES = {
    "a whole query from its node": ("{task: migrate, node: 3, arguments: [4, 144, rhino]}",),
    "one operator alone": ("{task: migrate, node: 3, arguments: [4, 144, megaphone, Join 0]}",),
    "state after its streams were stopped and relayed": (
        "{task: stopStream, node: 1, arguments: [3, 3]}",
        "{task: relayStream, node: 1, arguments: [3, 3, 4]}",
        "{task: moveQueryState, node: 3, arguments: [144, 4]}",
        "{task: resumeStream, node: 1, arguments: [3]}",
    ),
    "state that no longer changes first": (
        "{task: moveStaticQueryState, node: 3, arguments: [144, 4]}",
        "{task: moveDynamicQueryState, node: 3, arguments: [144, 4]}",
    ),
    "rows that are buffered meanwhile": (
        "{task: bufferStream, node: 1, arguments: [3]}",
        "{task: adapt, arguments: [144, 4, all-at-once]}",
        "{task: resumeStream, node: 1, arguments: [3]}",
    ),
}


@pytest.mark.parametrize("tasks", [pytest.param(tasks, id=name) for name, tasks in STATE_MOVES.items()])
def test_tasks_that_move_state_change_no_result(tasks: tuple[str, ...], right: TrialOutcome, tmp_path: Path) -> None:
    outcome = ran(moving(tmp_path, *MID_STREAM[:2], *tasks))
    assert (outcome.failure, outcome.answers) == ("", right.answers)
    assert outcome.metrics["migration.bytes"] > 0


SENT = {
    "at a rate": "sendDsAsConstantStream, node: 1, arguments: [94, 5000]",
    "on and off": "sendDsAsVariableOnOffStream, node: 1, arguments: [94, 20000, 100, 500, 1000, 250]",
    "by timestamps": "sendDsAsStream, node: 1, arguments: [94, 1, timestamps]",
    "as fast as possible": "sendDsAsStream, node: 1, arguments: [94]",
}


@pytest.mark.parametrize("send", [pytest.param(each, id=name) for name, each in SENT.items()])
def test_all_ways_to_send_a_dataset_give_the_same_results(send: str, right: TrialOutcome, tmp_path: Path) -> None:
    outcome = ran(moving(tmp_path, f"{{task: {send}}}", "{task: retWhenReceived, node: 3, arguments: [3100]}"))
    assert (outcome.failure, outcome.answers) == ("", right.answers)


def test_rows_are_sent_in_simulated_time(tmp_path: Path) -> None:
    mark = "{task: traceTuple, node: 5, arguments: [7]}"
    file = moving(
        tmp_path, mark, "{task: sendDsAsConstantStream, node: 1, arguments: [94, 1000]}", mark, network="10000000"
    )
    began_ns, ended_ns = (int(line.split()[2]) for line in ran(file).trace if line.startswith("5 7 "))
    assert 2.99 < (ended_ns - began_ns) / 1e9 < 3.05


CUT = "{task: disconnectNode, node: 3, arguments: [100]}"


def test_a_host_that_is_cut_off_loses_what_its_report_says(tmp_path: Path) -> None:
    """Every bid finds one auction. All auctions are lost with the host after 1.1 s, and bids on their way to it."""
    outcome = ran(moving(tmp_path, *MID_STREAM[:2], CUT, query="A.3"))
    assert outcome.failure == ""
    assert outcome.metrics["lost.state_rows"] == 100 + outcome.metrics["results"]  # bids that may yet find more
    assert outcome.metrics["lost.bytes"] > 0
    assert 1000 < outcome.metrics["results"] < 1150


def test_a_host_that_is_cut_off_after_its_query_has_left_loses_nothing(right: TrialOutcome, tmp_path: Path) -> None:
    outcome = ran(moving(tmp_path, *MID_STREAM, CUT), m="all-at-once")
    assert (outcome.failure, outcome.answers) == ("", right.answers)
    assert "lost.bytes" not in outcome.metrics


def test_a_mechanism_that_cannot_move_a_query_is_the_reason_with_its_line(tmp_path: Path) -> None:
    failure = ran(moving(tmp_path, *MID_STREAM), m="window-recreation").failure
    assert re.match(
        r"task adapt \(.*f.yaml line \d+\): window-recreation cannot move .*; use state-recreation", failure
    )


def test_slower_links_of_state_make_a_move_longer_and_those_of_tuples_do_not(tmp_path: Path) -> None:
    file = moving(tmp_path, *MID_STREAM)
    text = (tmp_path / "f.yaml").read_text()
    seconds = []
    for network in ("migration: '1000000'", "migration: '100000'"):
        (tmp_path / "f.yaml").write_text(text.replace("migration: '1000000'", network))
        seconds.append(ran(load_experiments(tmp_path / "f.yaml"), m="all-at-once").metrics["migration.seconds"])
    assert file.network is not None
    assert seconds[1] > 5 * seconds[0]


def test_a_task_that_waits_for_what_never_comes_says_so(tmp_path: Path) -> None:
    outcome = ran(moving(tmp_path, "{task: retWhenReceived, node: 3, arguments: [5000]}"))
    assert re.fullmatch(
        r"nothing happens any more, and tasks are not done: task retWhenReceived \(.*f.yaml line \d+\): "
        r"node 3 has received 100 rows of 5000",
        outcome.failure,
    )


REFUSED = {
    "{task: addNextHop, node: 1, arguments: [3, 3]}": "say addSourceNode and addSinkNode",
    "{task: startRuntimeEnv, node: 3}": "queries run from the beginning; leave it out",
    "{task: adapt, arguments: [144, 5, rhino]}": "one of its potential hosts 2, 3, 4; got 5",
    "{task: sendDsAsStream, node: 2, arguments: [94]}": "stream Bid of query 144, whose source nodes are 1",
    "{task: bufferStream, node: 3, arguments: [2]}": "stream Auction is sent by node 1",
    "{task: bufferStream, node: 3, arguments: [1]}": "stream Person, which no task of the flow sends",
    "{task: disconnectNode, node: 5, arguments: [1]}": "nodes that can be cut off are 2, 3, 4",
    "{task: retWhenProcessed, node: 3, arguments: [1, 144, Filter 2]}": "query 144 has GroupBy 1, Join 0, Select 0, ",
    "{task: deployQueries, arguments: [5, 144]}": "query 144 is deployed twice",
    "{task: deployQueries, arguments: [5, 145]}": "query 145 shares operators with query 144",
    "{task: relayStream, node: 1, arguments: [2, 3, 4]}": "no later task moves a query there",
    "{task: moveStaticQueryState, node: 3, arguments: [144, 4]}": "must be followed by moveDynamicQueryState",
    "{task: moveDynamicQueryState, node: 3, arguments: [144, 4]}": "must follow moveStaticQueryState",
}


@pytest.mark.parametrize(("task", "reason"), REFUSED.items())
def test_what_cannot_be_done_is_refused_before_anything_starts(task: str, reason: str, tmp_path: Path) -> None:
    found = list(lacking(moving(tmp_path, task)))
    assert any(re.match(rf".*f\.yaml line \d+: .*{re.escape(reason)}", line) for line in found), found
