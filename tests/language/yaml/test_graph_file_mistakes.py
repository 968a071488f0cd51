"""Graph files with mistakes: every mistake names its line, and what would be valid."""

import pytest
from tests.language.yaml.graph_texts import DATASETS, SHORT, loaded, wrong

from shoal.errors import GraphError
from shoal.language.yaml.graph_file import load_file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [1\n- b", "file.yaml line 2: this is not YAML", id="not YAML"),
        pytest.param("", "file.yaml: the file is empty", id="empty"),
        pytest.param("x: 1", "line 1: a graph file has no key 'x'; there are name, ", id="unknown key at the top"),
        pytest.param("name: x", "line 1: a graph file must have a key 'spequeries'", id="no queries"),
        pytest.param("spequeries: []", "line 1: spequeries must be a mapping with a key 'queries'", id="a list of SQL"),
        pytest.param("spequeries: {}", "line 1: spequeries must have a key 'queries'", id="no list of queries"),
        pytest.param("spequeries: {queries: &x [*x]}", "nested too deeply", id="a circle of references"),
        pytest.param("spequeries: &x {queries: [{name: *x}]}", "nested too deeply", id="a value in itself"),
        pytest.param(
            wrong("type: sink", "type: sing"), "line 11: operator type must be one of source, filter", id="unknown type"
        ),
        pytest.param(
            wrong("{name: out, type: sink}", "{name: out}"), "line 11: an operator must have a type", id="no type"
        ),
        pytest.param(
            wrong("name: out, type", "name: n, type"),
            "line 12: query 'busy' has two operators named 'n'",
            id="two of one name",
        ),
        pytest.param(
            wrong("type: sink}", "type: sink, kind: x}"),
            "line 11: operator has no key 'kind'; there are name, type",
            id="unknown key",
        ),
        pytest.param(
            wrong("{stream: cars}", "{stream: cars, speed: 1}"),
            "line 15: source 'in' has no key 'speed'; there are stream",
            id="unknown parameter",
        ),
        pytest.param(
            wrong("{keys: [road], aggregates", "{keys: [road], keys: [road], aggregates"),
            "line 12: aggregate 'n' has key 'keys' twice",
            id="a key twice",
        ),
        pytest.param(
            wrong("size_us: 10000000, ", ""),
            "line 13: window 'ten': the parameters are not of the form",
            id="half a window",
        ),
        pytest.param(
            wrong("{condition: [gt, [col, speed], [lit, 80]]}", "{}"),
            "line 14: filter 'fast': parameter 'condition' is missing",
            id="a parameter is missing",
        ),
        pytest.param(
            wrong("- {from: in, to: fast}", ""),
            "line 14: filter 'fast': there must be 1 edges to it; got none",
            id="no edge",
        ),
        pytest.param(
            wrong("- {from: in, to: fast}", "- {from: in, to: fast}\n    - {from: in, to: fast}"),
            "line 14: filter 'fast': there must be 1 edges to it; got in, in",
            id="an edge too many",
        ),
        pytest.param(
            wrong("- {from: in, to: fast}", "- {from: in, to: quick}"),
            "line 20: there is no operator 'quick'; there are out, n",
            id="an edge to nowhere",
        ),
        pytest.param(
            wrong("- {from: in, to: fast}", "- {from: in}"),
            "line 20: an edge must say where it leads",
            id="half an edge",
        ),
        pytest.param(
            wrong("- {from: in, to: fast}", "- {to: fast}"),
            "line 20: an edge must say where it comes from",
            id="the other half",
        ),
        pytest.param(
            wrong("- {from: in, to: fast}", "- {from: n, to: fast}"),
            "line 9: the edges of query 'busy' must not lead in a circle; they do, among out, n, ten, fast",
            id="a circle",
        ),
        pytest.param(
            wrong("{stream: cars}", "{stream: boats}"),
            "line 15: source 'in': stream 'boats' is not defined; give a schema here, or one of cars",
            id="unknown stream",
        ),
        pytest.param(
            wrong("[col, speed]", "[col, sped]"),
            "line 14: filter 'fast': filter on stream 'cars' names unknown column 'sped'",
            id="unknown column",
        ),
        pytest.param(wrong("[gt,", "[greater,"), "line 14: filter 'fast': unknown expression", id="unknown expression"),
        pytest.param(wrong("[gt, [col, speed], [lit, 80]]", "[udf]"), "line 14: filter 'fast': ", id="half a function"),
        pytest.param(
            wrong("[count]", "[average, speed]"),
            "line 12: aggregate 'n': aggregate must be one of count",
            id="unknown aggregate",
        ),
        pytest.param(
            wrong("{n: [count]}}", "{n: [count]}, types: {ts: timestamp}}"),
            "line 12: aggregate 'n': parameter 'types' must be {ts: timestamp, road: int64, speed: float64}, "
            "or be left out; got {ts: timestamp}",
            id="wrong types",
        ),
        pytest.param(
            wrong("{n: [count]}}", "{n: [count]}, groups: 5}"),
            "line 12: aggregate 'n': groups needs a partition",
            id="groups of nothing",
        ),
        pytest.param(
            wrong("{name: out, type: sink}", "{name: out, type: sink, parameters: {query: lazy}}"),
            "line 11: sink 'out': parameter 'query' must be busy",
            id="another query's sink",
        ),
        pytest.param(
            wrong("type: source, parameters: {stream: cars}", "type: union"),
            "line 9: query 'busy' must have a source",
            id="no source",
        ),
        pytest.param(
            wrong("- {from: n, to: out}\n", "- {from: n, to: out}\n    - {from: out, to: in}\n"),
            "must not lead in a circle",
            id="behind the sink",
        ),
        pytest.param(
            wrong(
                "{name: out, type: sink}",
                "{name: out, type: filter, parameters: {condition: [gt, [col, n], [lit, 1]]}}",
            ),
            "line 9: query 'busy' must end in its one sink",
            id="no sink",
        ),
        pytest.param(wrong("- name: busy", "- id: 3"), "line 9: a query must have a name", id="no name"),
        pytest.param(
            wrong("type: double", "type: decimal"),
            "line 5: type of a field must be one of int, long",
            id="unknown type of a field",
        ),
        pytest.param(
            wrong("lateness-s: 2", "lateness-s: soon"),
            'line 6: lateness-s must be a number of seconds, or a text such as "90 s"; got soon',
            id="no number",
        ),
        pytest.param(
            wrong("lateness-s: 2", "idle-s: soon"),
            'line 6: idle-s must be a number of seconds, or a text such as "90 s"; got soon',
            id="no idle time",
        ),
        pytest.param(
            wrong("lateness-s: 2", "idle-s: 0"),
            "line 3: idle_s of stream 'cars' must be more than 0; got 0",
            id="idle at once",
        ),
        pytest.param(
            wrong("name: road, type: int", "name: ts, type: int"),
            "line 5: stream 'cars' has field 'ts' twice",
            id="a field twice",
        ),
        pytest.param(
            wrong("type: timestamp", "type: long"),
            "line 3: stream 'cars' needs a rowtime-column, or a column of type timestamp",
            id="no event time",
        ),
        pytest.param(
            wrong("lateness-s: 2", "rowtime-column: {column: speed}"),
            "line 6: rowtime-column of stream 'cars' must be a timestamp or long",
            id="a rowtime that is none",
        ),
        pytest.param(wrong("name: busy", "name: !!python/object:os.system busy"), "is not understood", id="a tag"),
    ],
)
def test_a_mistake_names_file_and_line_and_what_would_be_valid(text: str, message: str) -> None:
    with pytest.raises(GraphError) as refused:
        loaded(text)
    assert message in str(refused.value)
    assert str(refused.value).startswith("file.yaml")


def test_two_queries_of_one_name_are_refused_where_the_second_stands() -> None:
    twice = SHORT + SHORT.split("queries:\n", 2)[2]
    with pytest.raises(GraphError, match=r"line 21: query 'busy' is declared twice"):
        loaded(twice)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param("file: small.csv, ", "", "line 23: a dataset must have a file", id="no file"),
        pytest.param("type: csv", "type: xml", "line 23: type of a dataset must be one of csv, yaml", id="no type"),
        pytest.param(", type: csv", "", "line 23: a dataset must have either a type", id="neither"),
        pytest.param("parquet", "orc", "line 24: format of a dataset must be one of parquet, arrow, csv", id="format"),
        pytest.param(
            "csv, type: csv", "csv, type: csv, follow: true", "line 23: follow of a dataset must be", id="follow"
        ),
    ],
)
def test_a_dataset_that_is_none_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        load_file(SHORT + wrong(old, new, DATASETS), "file.yaml")
