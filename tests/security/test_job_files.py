"""Attacks by a job file that somebody else wrote: YAML and SQL describe queries, and run nothing."""

import base64
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from shoal.cli.main import cli
from shoal.cli.target import functions_of
from shoal.connectors.sinks import directory_name
from shoal.errors import GraphError, ShoalError, SqlError
from shoal.language.python.stream import Stream
from shoal.language.sql.script import parse_script
from shoal.language.yaml.graph_file import load_graph, save_graph
from shoal.model.query.code import load

CARS = Stream("cars", {"ts": "timestamp", "speed": "int64"}, time="ts")
FUNCTIONS = """
import shoal

@shoal.udf("int64")
def doubled(values):
    return values * 2

class Longest:
    def zero(self): return 0
    def add(self, state, values): return max(state, *values)
    def merge(self, a, b): return max(a, b)
    def result(self, state): return state
"""


class Bomb:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (os.system, (f"touch {self.mark}",))


def pickled_bomb(mark: Path) -> str:
    """A pickled function, as graph files and checkpoints have them, that leaves a mark when it is loaded."""
    return "pickle:" + base64.b64encode(pickle.dumps(Bomb(mark))).decode()


def graph_text(operators: str, edges: str = "[{from: a, to: b}, {from: b, to: z}]") -> str:
    source = "{name: a, type: source, parameters: {stream: cars, schema: {ts: timestamp, speed: int64}, time: ts}}"
    listed = f"[{source}, {operators}, {{name: z, type: sink}}]"
    return f"spequeries: {{queries: [{{name: q, operators: {listed}, edges: {edges}}}]}}"


def selecting(expression: str) -> str:
    return graph_text(f"{{name: b, type: select, parameters: {{columns: {{ts: [col, ts], x: {expression}}}}}}}")


def aggregating(aggregate: str) -> str:
    window = "{name: w, type: window, parameters: {size_us: 1000000, slide_us: 1000000}}"
    operators = f"{window}, {{name: b, type: aggregate, parameters: {{aggregates: {{x: {aggregate}}}}}}}"
    return graph_text(operators, "[{from: a, to: w}, {from: w, to: b}, {from: b, to: z}]")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(selecting("[udf, f, 'os:system', int64, [lit, 'touch {mark}']]"), id="a function by its module"),
        pytest.param(selecting("[udf, f, '{bomb}', int64, [col, speed]]"), id="a pickled function"),
        pytest.param(selecting("[add, [lit, 1], [udf, f, '{bomb}', int64]]"), id="a pickled function inside"),
        pytest.param(aggregating("[user, speed, 0, 'os:system', int64]"), id="an aggregate by its module"),
        pytest.param(aggregating("[user, speed, 0, '{bomb}', int64]"), id="a pickled aggregate"),
    ],
)
def test_code_in_a_graph_file_is_refused_before_it_is_loaded(text: str, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    file = tmp_path / "job.yaml"
    file.write_text(text.replace("{bomb}", pickled_bomb(mark)).replace("{mark}", str(mark)))
    said = CliRunner().invoke(cli, ["run", str(file), "--on", "reference", "--source", f"csv:{tmp_path}"])
    assert isinstance(said.exception, GraphError)
    assert "code in a file is not run" in str(said.exception)
    assert "--functions" in str(said.exception)
    assert not mark.exists()


@pytest.mark.parametrize(
    "parameters",
    [
        "!!python/object/apply:os.system ['touch {mark}']",
        "{condition: !!python/object/apply:os.system ['touch {mark}']}",
        "{condition: !!python/name:os.system ''}",
        "{condition: !!python/module:antigravity ''}",
        "{condition: [gt, [col, speed], !!python/object/new:os.system ['touch {mark}']]}",
    ],
)
def test_tags_of_python_in_yaml_are_refused(parameters: str, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    text = graph_text(f"{{name: b, type: filter, parameters: {parameters.replace('{mark}', str(mark))}}}")
    with pytest.raises(GraphError, match=r"job\.yaml line 1: "):
        load_graph(text, "job.yaml")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["os.system", "os:system", "__import__", "eval", "system"])
def test_only_functions_that_the_user_has_given_are_found_by_name(name: str) -> None:
    with pytest.raises(GraphError, match="there is no function"):
        load_graph(selecting(f"[udf, {name}, [col, speed]]"), "job.yaml")
    with pytest.raises(GraphError, match="there is no aggregate"):
        load_graph(aggregating(f"[user, speed, {name}, int64]"), "job.yaml")


@pytest.mark.parametrize(
    "select",
    ["os.system('true')", '"os:system"(speed)', "__import__('os')", "eval('1')", "udf('f', 'os:system', speed)"],
)
def test_sql_calls_only_functions_that_the_user_has_given(select: str) -> None:
    with pytest.raises(SqlError):
        parse_script(f"INSERT INTO t SELECT ts, {select} AS x FROM cars", streams={"cars": CARS})


def test_functions_and_aggregates_of_a_file_that_the_user_names_are_found(tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text(FUNCTIONS)
    named = functions_of(str(file))
    assert sorted(named) == ["Longest", "doubled"]
    selected = load_graph(selecting("[udf, doubled, [col, speed]]"), "job.yaml", named)
    load_graph(aggregating("[user, speed, Longest, int64]"), "job.yaml", named)
    assert load_graph(save_graph(selected), "again.yaml") == selected


def test_a_file_with_code_is_read_if_the_user_trusts_it(tmp_path: Path) -> None:
    """Then, and only then, its code runs: the bomb goes off."""
    mark = tmp_path / "ran"
    text = selecting(f"[udf, f, '{pickled_bomb(mark)}', int64, [col, speed]]")
    with pytest.raises(GraphError, match="--allow-pickle"):
        load_graph(text, "job.yaml")
    load_graph(text, "job.yaml", allow_pickle=True)
    assert not mark.exists()
    load(pickled_bomb(mark))
    assert mark.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "network: {b0: &a0 [1, 1], "
            + ", ".join(f"b{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))
            + "}\nspequeries: {queries: *a11}",
            "aliases are nested too deeply: they stand for more than 10,000,000 values",
            id="a billion aliases",
        ),
        pytest.param("spequeries: " + "[" * 100_000, "nested too deeply", id="brackets that overflow the stack"),
        pytest.param("spequeries:\n" + "? " * 100_000, "nested too deeply", id="keys that overflow the stack"),
        pytest.param(selecting(f"[lit, {'9' * 5000}]"), "at most 1000 digits; got 5000", id="a number of 5,000 digits"),
        pytest.param(selecting(f"[lit, {'9' * 50}]"), "must fit 64 bits", id="a number of 50 digits"),
        pytest.param(
            aggregating("[top_k, speed, 1000000000]"), "must keep between 1 and 1024", id="state without bounds"
        ),
        pytest.param(
            aggregating("[count]").replace("aggregates", "partition: [speed], groups: 1000000000, aggregates"),
            "between 1 and 65536 groups",
            id="a billion instances",
        ),
    ],
)
def test_a_file_cannot_exhaust_memory_or_crash_the_process(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        load_graph(text, "job.yaml")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "..", "a/b", "a\0b"])
def test_a_stream_cannot_be_named_like_a_path(name: str) -> None:
    with pytest.raises(ShoalError, match="must be an identifier"):
        Stream(name, {"ts": "timestamp"}, time="ts")


def test_no_table_leads_out_of_the_directory_of_a_sink(tmp_path: Path) -> None:
    for path in ("../../outside", "/etc/passwd", ".."):
        with pytest.raises(GraphError, match=r"must not begin with '\.' or contain '/'"):
            CARS.sink(path)
        with pytest.raises(GraphError, match=r"must not begin with '\.' or contain '/'"):
            CARS.sink("q", table=path)
    for name in ("..", ".", "../../outside", "/etc", "a\0b", "~", "-rf"):
        assert (tmp_path / directory_name(name)).resolve().parent == tmp_path.resolve()
