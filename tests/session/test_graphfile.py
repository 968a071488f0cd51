"""Jobs from graph files: datasets become sources, and the files of DCEP-Sim are taken apart by stream."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from shoal.connectors.sources.files import Files
from shoal.errors import ConfigError, GraphError, ShoalError, SourceError
from shoal.session.graphfile import job_from_graph

FILE = """
stream-definitions:
- stream-id: 2
  name: Auction
  tuple-format: [{name: dateTime, type: timestamp}, {name: id, type: int}]
- stream-id: 3
  name: Bid
  tuple-format: [{name: dateTime, type: long}, {name: price, type: double}, {name: note, type: string}]
  rowtime-column: {column: dateTime, nanoseconds-per-tick: 1000000}
datasets:
DATASETS
spequeries:
  queries:
  - name: prices
    operators:
    - {name: in, type: input, parameters: {stream-id: 3}}
    - {name: out, type: output}
    edges: [{from: in, to: out}]
"""
BOTH = """\
  - name: auctions
    operators:
    - {name: in, type: source, parameters: {stream: Auction}}
    - {name: out, type: sink}
    edges: [{from: in, to: out}]
"""
MIXED = "- {id: 94, name: small, file: events.csv, type: csv}"
EVENTS = """\
3,1000,1.5,"a, b"
2,2024-01-01T00:00:00Z,7

3, 1001, 2.5, ""
3,soon,,c
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()


def file(root: Path, datasets: str = MIXED, events: str = EVENTS, more: str = "") -> Path:
    (root / "events.csv").write_text(events)
    path = root / "job.yaml"
    path.write_text(FILE.replace("DATASETS", datasets) + more)
    return path


def rows(source: Any) -> list[dict[str, Any]]:
    assert isinstance(source, Files)
    return [row for path in sorted(Path(source.path).iterdir()) for row in pq.read_table(path).to_pylist()]


def test_a_file_of_several_streams_is_taken_apart(tmp_path: Path) -> None:
    job = job_from_graph(file(tmp_path, more=BOTH), 500)
    assert job.name == "job"
    assert list(job.graph.streams) == ["Bid", "Auction"]
    assert rows(job.sources["Auction"]) == [{"dateTime": "2024-01-01T00:00:00Z", "id": "7"}]
    assert rows(job.sources["Bid"]) == [
        {"dateTime": "1000000", "price": "1.5", "note": "a, b"},
        {"dateTime": "1001000", "price": "2.5", "note": ""},
        {"dateTime": "soon", "price": None, "note": "c"},
    ]


def test_only_what_is_read_is_kept(tmp_path: Path) -> None:
    assert list(job_from_graph(file(tmp_path)).sources) == ["Bid"]


def test_the_same_dataset_is_taken_apart_once_and_gives_the_same_files_again(tmp_path: Path) -> None:
    path = file(tmp_path)
    first = job_from_graph(path).sources["Bid"]
    assert isinstance(first, Files)
    (part,) = Path(first.path).iterdir()
    content, changed = part.read_bytes(), part.stat().st_mtime_ns
    assert job_from_graph(path).sources["Bid"] == first
    part.unlink()
    part.parent.rmdir()
    part.parent.parent.rmdir()
    assert job_from_graph(path).sources["Bid"] == first
    assert (part.read_bytes(), part.stat().st_mtime_ns) == (content, changed)
    (tmp_path / "events.csv").write_text("3,1,1,x\n")
    assert job_from_graph(path).sources["Bid"] != first


def test_several_datasets_are_read_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(
        "cepevents:\n"
        "- stream-id: 3\n"
        "  attributes: [{name: dateTime, value: 5}, {name: note, value: on}, {name: price, value: 1.0}]\n"
    )
    datasets = "- {name: more, file: events.yaml, type: yaml}\n" + MIXED
    assert rows(job_from_graph(file(tmp_path, datasets)).sources["Bid"])[:2] == [
        {"dateTime": "5000", "price": "1.0", "note": "on"},
        {"dateTime": "1000000", "price": "1.5", "note": "a, b"},
    ]


def test_a_directory_of_files_is_read_as_it_is(tmp_path: Path) -> None:
    datasets = "- {name: d, file: bids, format: arrow, stream: 3, follow: true}"
    source = job_from_graph(file(tmp_path, datasets), 500).sources["Bid"]
    assert source == Files(str(tmp_path / "bids"), format="arrow", rows_per_epoch=500, follow=True)


def test_another_source_can_be_given(tmp_path: Path) -> None:
    other = Files(str(tmp_path))
    assert job_from_graph(file(tmp_path), source=other).sources == {"Bid": other}
    with pytest.raises(ConfigError, match=r"--source replaces the source of a job with one stream; .* has 2"):
        job_from_graph(file(tmp_path, more=BOTH), source=other)


@pytest.mark.parametrize(
    ("datasets", "events", "kind", "message"),
    [
        pytest.param("  []", EVENTS, GraphError, "has no dataset for stream 'Bid'", id="no dataset"),
        pytest.param(
            "- {file: no.csv, type: csv}",
            EVENTS,
            GraphError,
            r"job.yaml line 11: there is no file .*no.csv",
            id="no file",
        ),
        pytest.param(
            "- {file: d, format: csv, stream: Bids}",
            EVENTS,
            GraphError,
            "line 11: there is no stream 'Bids'; there are Bid, Auction",
            id="no stream",
        ),
        pytest.param(
            "- {file: d, format: csv}\n" + MIXED,
            EVENTS,
            GraphError,
            "line 12: each of the streams Bid already has another dataset",
            id="two sources",
        ),
        pytest.param(
            "- {file: d, format: csv}\n- {file: e, format: csv}",
            EVENTS,
            GraphError,
            "line 12: stream 'Bid' already has another",
            id="two directories",
        ),
        pytest.param(
            MIXED,
            "3,1,1\n",
            SourceError,
            r"events.csv line 1: a row of stream 3 \(Bid\) must have 3 fields after its stream id; got 2",
            id="too few fields",
        ),
        pytest.param(
            MIXED,
            "3,1,1,x\n9,1\n",
            SourceError,
            "events.csv line 2: there is no stream '9'; there are 2, 3",
            id="unknown stream",
        ),
        pytest.param(
            "- {file: events.csv, type: yaml}", "a: [", SourceError, "events.csv: this is not YAML", id="no YAML"
        ),
        pytest.param(
            "- {file: events.csv, type: yaml}", "a: 1", SourceError, "must be of the form cepevents", id="no events"
        ),
        pytest.param(
            "- {file: events.csv, type: yaml}",
            "cepevents: [{stream-id: 3, attributes: [{name: x, value: 1}]}]",
            SourceError,
            "event 0: stream 3 has no field 'x'",
            id="unknown field",
        ),
    ],
)
def test_a_dataset_that_cannot_be_read_is_an_error(
    datasets: str, events: str, kind: type[ShoalError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        job_from_graph(file(tmp_path, datasets, events))
    assert not list((tmp_path / "tmp").glob("*/*"))


def test_a_missing_or_unreadable_file_and_a_setting_are_the_users_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file nowhere.yaml"):
        job_from_graph(Path("nowhere.yaml"))
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="must be UTF-8 text"):
        job_from_graph(tmp_path / "x.yaml")
    with pytest.raises(ConfigError, match="--set is for workloads"):
        job_from_graph(file(tmp_path), settings={"a": "1"})
