"""Bad experiment files of both dialects: one message each, with file, line and what would be valid."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from shoal.errors import ShoalError
from shoal.experiments.language.experiment_file import load_experiments
from shoal.experiments.requirements import lacking

LISTING = (Path(__file__).parents[1] / "listings" / "A.1.yaml").read_text()
HEAD = """\
stream-definitions:
- {stream-id: 1, name: Bid, tuple-format: [{name: ts, type: timestamp}, {name: auction, type: int}]}
- {stream-id: 2, name: Out, tuple-format: [{name: auction, type: int}]}
datasets:
- {id: 8, file: bids.csv, type: csv}
spequeries:
- {id: 1, name: q, output-stream-id: 2, sql-query: {shoal: select auction from Bid}}
experiments:
- name: e
  flow:
"""
OK = """\
  - {task: addNextHop, node: 1, arguments: [Bid, 2]}
  - {task: deployQueries, node: 2, arguments: [1]}
  - {task: startRuntimeEnv, node: 2}
  - {task: sendDsAsStream, node: 1, arguments: [8]}
"""


class BadFile(NamedTuple):
    """A mistake: what is written instead of something right, and the message; `...` stands for a long list."""

    name: str
    right: str
    wrong: str
    message: str


EXPOSE = (
    BadFile(
        "task that is unknown",
        "sendDsAsStream",
        "sendDatasetAsStream",
        "f.yaml line 14: there is no task 'sendDatasetAsStream'; there are adapt, ..., "
        "writeStreamToCsv; did you mean 'sendDsAsStream'?",
    ),
    BadFile(
        "engine that is unknown",
        "- name: e\n",
        "- name: e\n  set: {engine: flik}\n",
        "f.yaml line 9: engine must be one of shoal-local, ...; got 'flik'; did you mean 'flink'?",
    ),
    BadFile(
        "stream that is unknown",
        "[Bid, 2]",
        "[Bids, 2]",
        "f.yaml line 11: streams of addNextHop must be a stream or a list of streams (1 Bid, 2 Out), "
        "or a parameter of the experiment (there are none); got 'Bids'; did you mean 'Bid'?",
    ),
    BadFile(
        "dataset that is unknown",
        "arguments: [8]",
        "arguments: [9]",
        "f.yaml line 14: dataset of sendDsAsStream must be a dataset (8); got 9",
    ),
    BadFile(
        "query that is unknown",
        "arguments: [1]}",
        "arguments: [3]}",
        "f.yaml line 12: query of deployQueries must be a query (1 q); got 3",
    ),
    BadFile(
        "node that is unknown",
        "[Bid, 2]",
        "[Bid, 7]",
        "f.yaml line 11: nodes of addNextHop must be a node or a list of nodes (1, 2); got 7",
    ),
    BadFile(
        "node that is no number",
        "node: 2, arguments: [1]",
        "node: two, arguments: [1]",
        "f.yaml line 12: node must be a number, a list of numbers, or coordinator; got two",
    ),
    BadFile(
        "task of a node for the coordinator",
        "startRuntimeEnv, node: 2",
        "startRuntimeEnv, node: coordinator",
        "f.yaml line 13: startRuntimeEnv is done by a node, not by the coordinator; give its number, as in 'node: 1'",
    ),
    BadFile(
        "too few arguments",
        "[Bid, 2]",
        "[Bid]",
        "f.yaml line 11: addNextHop takes 2 arguments: addNextHop [streams, nodes]; got 1",
    ),
    BadFile(
        "too many arguments",
        "arguments: [1]}",
        "arguments: [1, 1, 1]}",
        "f.yaml line 12: deployQueries takes 1 to 2 arguments: deployQueries [query, (times)]; got 3",
    ),
    BadFile(
        "argument of a wrong type",
        "arguments: [1]}",
        "arguments: [1, many]}",
        "f.yaml line 12: times of deployQueries must be a whole number, at least 1, or a parameter of "
        "the experiment (there are none); got 'many'",
    ),
    BadFile(
        "pace that is none",
        "arguments: [8]",
        "arguments: [8, 1, quickly]",
        "f.yaml line 14: pace of sendDsAsStream must be as-fast-as-possible, timestamps, or rows per "
        "second, or a parameter of the experiment (there are none); got 'quickly'",
    ),
    BadFile(
        "bad YAML",
        "- {task: startRuntimeEnv, node: 2}",
        "- {task: startRuntimeEnv, node: 2",
        "f.yaml line 14: this is not YAML: did not find expected ',' or '}' while parsing a flow "
        "mapping that begins in line 13",
    ),
    BadFile(
        "a key that is unknown",
        "node: 1, arguments: [8]",
        "nodes: 1, arguments: [8]",
        "f.yaml line 14: task has no key 'nodes'; there are task, node, arguments, parallel, ack, "
        "lock-spe, realism; did you mean 'node'?",
    ),
    BadFile(
        "top-level key that is unknown",
        "datasets:",
        "dataset:",
        "f.yaml line 4: an experiment file has no key 'dataset'; there are name, dialect, "
        "experiments, stream-definitions, datasets, spequeries, tracepoints, plots, network; did you "
        "mean 'datasets'?",
    ),
    BadFile(
        "stream-id twice",
        "stream-id: 2",
        "stream-id: 1",
        "f.yaml line 3: stream 'Out' (stream-id 1) is defined twice; each needs its own name and id",
    ),
    BadFile(
        "dataset id twice",
        "- {id: 8, file: bids.csv, type: csv}\n",
        "- {id: 8, file: bids.csv, type: csv}\n- {id: 8, file: other.csv, type: csv}\n",
        "f.yaml line 6: dataset 8 is declared twice; give one of them another id",
    ),
    BadFile(
        "query id twice",
        "experiments:\n",
        "- {id: 1, name: p, output-stream-id: 2, sql-query: {shoal: select auction from Bid}}\nexperiments:\n",
        "f.yaml line 8: query 1 is declared twice; give one of them another id",
    ),
    BadFile(
        "field type that is unknown",
        "type: int}]}\n- {stream-id: 2",
        "type: integer}]}\n- {stream-id: 2",
        "f.yaml line 2: type of a field must be one of int, long, float, double, string, bool, "
        "timestamp, long-timestamp, perhaps with 'not null' behind it; got 'integer'; did you mean "
        "'int'?",
    ),
    BadFile(
        "dataset type that is unknown",
        "type: csv",
        "type: json",
        "f.yaml line 5: type of a dataset must be one of csv, yaml; got 'json'",
    ),
    BadFile(
        "output stream that is unknown",
        "output-stream-id: 2",
        "output-stream-id: 5",
        "f.yaml line 7: output-stream-id must be one of 1, 2; got 5",
    ),
    BadFile(
        "queries that depend on each other",
        "{shoal: select auction from Bid}}\n",
        "{shoal: select auction from Bid}, dependency-queries: [4]}\n- {id: 4, name: p, "
        "output-stream-id: 2, sql-query: {shoal: select auction from Bid}, dependency-queries: [1]}\n",
        "f.yaml line 7: dependency-queries must not lead in a circle; they do, among 1, 4: leave one of them out",
    ),
    BadFile(
        "dependency that is unknown",
        "{shoal: select auction from Bid}}\n",
        "{shoal: select auction from Bid}, dependency-queries: [4]}\n",
        "f.yaml line 7: dependency-queries of query 1 must be of 1; got 4",
    ),
    BadFile(
        "query without a text for the engine",
        "{shoal: select",
        "{flink: select",
        "f.yaml line 7: query 1 (q): engine shoal-local reads shoal-local or ..., and sql-query has flink",
    ),
    BadFile(
        "query that is no SQL",
        "select auction from Bid",
        "selekt auction from Bid",
        "f.yaml line 7: shoal-local cannot run query 'q': q, line 1, column 16: unexpected token near 'from'",
    ),
    BadFile(
        "an empty flow",
        "  flow:\n  - {task: addNextHop, node: 1, arguments: [Bid, 2]}\n  - {task: deployQueries, "
        "node: 2, arguments: [1]}\n  - {task: startRuntimeEnv, node: 2}\n  - {task: sendDsAsStream, "
        "node: 1, arguments: [8]}\n",
        "  flow: []\n",
        "f.yaml line 10: flow must have at least one task",
    ),
    BadFile(
        "points that have a value twice",
        "- name: e\n",
        "- name: e\n  vary: {engine: [duckdb, duckdb]}\n",
        "f.yaml line 10: vary of 'engine' has a value twice; got [duckdb, duckdb]",
    ),
    BadFile(
        "two subjects",
        "- name: e\n",
        "- name: e\n  workload: ysb\n",
        "f.yaml line 9: an experiment must have one of the keys flow, workload, measure; got flow and workload",
    ),
    BadFile(
        "two experiments of one name",
        "- name: e\n  flow:",
        "- name: e\n  workload: ysb\n- name: e\n  flow:",
        "f.yaml line 11: two experiments must not have one name; got 'e' of f.yaml line 9",
    ),
)
DCEP_SIM = (
    BadFile(
        "mechanism that is unknown",
        "drop-state]",
        "drop-all]",
        "f.yaml line 149: mechanism of adapt must be a mechanism (megaphone, ..., utility), or a "
        "parameter of the experiment (migration_mechanism); got 'drop-all'; did you mean 'drop-state'?",
    ),
    BadFile(
        "wrong number of arguments",
        "[144, 3, drop-state]",
        "[144, 3]",
        "f.yaml line 151: adapt takes 3 arguments: adapt [deployed query, node, mechanism]; got 2",
    ),
    BadFile(
        "query that is not deployed",
        "[144, 3, drop-state]",
        "[145, 3, drop-state]",
        "f.yaml line 149: deployed query of adapt must be a deployed query (144); got 145",
    ),
    BadFile(
        "network without a bandwidth",
        "  bandwidth: {migration: '10000000', tuples: '10000000'}\n",
        "",
        "f.yaml line 289: network must have a key 'bandwidth', as in {bandwidth: {tuples: 10000000, "
        "migration: 10000000}}",
    ),
    BadFile(
        "bandwidth in a bad unit",
        "tuples: '10000000'",
        "tuples: 10 megabyte",
        'f.yaml line 289: bandwidth must be bits per second, as in 10000000 or 10Mbps; got "10 megabyte"',
    ),
    BadFile(
        "latency that is no number",
        "latency: {migration: '0'",
        "latency: {migration: short",
        "f.yaml line 290: latency must be a number of microseconds, as in 500 for half a millisecond; got short",
    ),
    BadFile(
        "wait in a bad unit",
        "    arguments: [100000000]\n  - node: coordinator\n    task: loop",
        "    arguments: [100 fortnights]\n  - node: coordinator\n    task: loop",
        "f.yaml line 152: time in us of wait must be a number of microseconds, or a text such as 2 s, "
        "or a parameter of the experiment (migration_mechanism); got '100 fortnights'",
    ),
    BadFile(
        "operator type that is unknown",
        "type: groupby",
        "type: group",
        "f.yaml line 216: operator type must be one of source, ..., output; got 'group'; did you mean 'groupby'?",
    ),
    BadFile(
        "edge to no operator",
        "to: {name: Join 0",
        "to: {name: Joint 0",
        "f.yaml line 251: there is no operator 'Joint 0'; there are Output 0, Select 0, input 0, "
        "Print 0, Window 1, GroupBy 1, input 1, Join 0, Window 0, Window 2, Filter 2, Filter 3",
    ),
    BadFile(
        "edges in a circle",
        "from: {name: Window 1, type: intermediate}\n      to: {name: Select 0",
        "from: {name: Window 1, type: intermediate}\n      to: {name: GroupBy 1",
        "f.yaml line 195: the edges of query 'NewName0' must not lead in a circle; they do, among Window 1, GroupBy 1",
    ),
    BadFile(
        "input of no stream",
        "{stream-id: 3, alias: B}",
        "{stream-id: 33, alias: B}",
        "f.yaml line 206: there is no stream '33'; there are 0 (StopStream), ..., 21 (OutQuery4)",
    ),
    BadFile(
        "field that no input has",
        "fields: [B.bidder]",
        "fields: [B.bider]",
        "f.yaml line 215: groupby 'GroupBy 1': there is no field 'B.bider'; there are B.dateTime, "
        "B.auction, B.bidder, B.price, A.dateTime, A.id, A.itemName, A.description, A.initialBid, "
        "A.reserve, A.expires, A.seller, A.category",
    ),
    BadFile(
        "comparison that is unknown",
        "op: larger_than_or_equals",
        "op: greater",
        "f.yaml line 238: op must be one of larger_than, larger_than_or_equals, smaller_than, "
        "smaller_than_or_equals, equals, not_equals, in_list; got 'greater'",
    ),
    BadFile(
        "plot without a type",
        ", type: Input-latency",
        "",
        "f.yaml line 286: a plot must have a key 'type'",
    ),
    BadFile(
        "parameter without a value",
        "  vary:\n    migration_mechanism: [no-migration, all-at-once, rhino, megaphone, meces, lazy-latency]\n",
        "",
        "f.yaml line 179: mechanism of adapt must be a mechanism (megaphone, ..., utility), or a "
        "parameter of the experiment (there are none); got 'migration_mechanism'",
    ),
    BadFile(
        "deployed by a node",
        "- node: coordinator\n    task: deployQueries",
        "- node: 3\n    task: deployQueries",
        "f.yaml line 131: deployQueries is done by the coordinator; say 'node: coordinator', or leave 'node' out",
    ),
)


def message_of(path: Path) -> str:
    """Why a file cannot be run, as `shoal experiment plan` says it."""
    try:
        (message,) = lacking(load_experiments(path))
    except ShoalError as error:
        return str(error)
    return message


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        *(pytest.param(HEAD + OK, each, id=f"expose: {each.name}") for each in EXPOSE),
        *(pytest.param(LISTING, each, id=f"dcep-sim: {each.name}") for each in DCEP_SIM),
    ],
)
def test_a_mistake_has_one_message_with_file_line_and_what_would_be_valid(
    text: str, bad: BadFile, tmp_path: Path
) -> None:
    assert bad.right in text
    for name in ("bids.csv", "auction-10000.csv", "nexmark-dataset-1000-unique-bidders-100000-rows.csv"):
        (tmp_path / name).write_text("1,1700000000000000,5\n")
    path = tmp_path / "f.yaml"
    path.write_text(text.replace(bad.right, bad.wrong, 1))
    expected = ".*".join(re.escape(part) for part in bad.message.split("..."))
    assert re.fullmatch(expected, message_of(path).replace(f"{tmp_path}/", ""), re.DOTALL)


def test_a_dataset_that_is_not_there_is_missing_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(HEAD + OK)
    message = "line 5: dataset 8: there is no file bids.csv beside the experiment file"
    assert message_of(path).endswith(message)


def test_the_files_without_their_mistakes_can_be_run(tmp_path: Path) -> None:
    (tmp_path / "bids.csv").write_text("1,1700000000000000,5\n")
    (tmp_path / "f.yaml").write_text(HEAD + OK)
    assert list(lacking(load_experiments(tmp_path / "f.yaml"))) == []
