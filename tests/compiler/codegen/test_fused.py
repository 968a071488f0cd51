"""Fused steps give, bit for bit, the blocks that the steps give one by one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.compiler.codegen.random_chains import TYPES, chains, wild_block

from shoal.compiler.codegen.fused import Chain, fused, prepare, types_after
from shoal.compiler.codegen.loop_run import LASTING_ROWS
from shoal.compiler.program import compile_graph
from shoal.compiler.steps import Assign, Attach, DispatchByGroup, DispatchByValue, Filter, Select, Step
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.nullable import Nullable
from shoal.kernels.columns.table import INSTANCE
from shoal.model.query.expression import Binary, Expression, col, lit
from shoal.model.query.functions import call, coalesce, floor, if_, is_null, is_same, null, nullif, round_, udf
from shoal.model.query.lookup import lookup
from shoal.model.query.window import Window
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

BLOCKS = [wild_block(3000, 1), wild_block(2500, 2, encode=True), wild_block(1, 3), wild_block(40, 4), wild_block(0, 5)]
WITH_NULLS = [
    wild_block(2000, 6, nulls=0.3),
    wild_block(1500, 7, encode=True, nulls=0.1),
    wild_block(40, 8, nulls=0.9),
    wild_block(3, 9, nulls=1.0),
]

PHASES = (Phase.reuse, Phase.generate)
"""To find a smaller example would mean to compile hundreds."""


def one_by_one(steps: Sequence[Step], block: Block) -> Block:
    for step in steps:
        block = step.apply(block)
    return block


def bits(column: Any) -> Any:
    """What a column holds, where all that are no numbers are alike."""
    if isinstance(column, Nullable):
        return "nullable", bits(column.values), column.valid.tobytes()
    if not isinstance(column, np.ndarray):
        return column.type, column.to_pylist()
    if column.dtype == np.float64:
        column = np.where(np.isnan(column), np.nan, column)
    return column.dtype, column.tobytes()


def check_same(got: Block, wanted: Block) -> None:
    assert got.length == wanted.length
    assert list(got.columns) == list(wanted.columns)
    for name, column in wanted.columns.items():
        assert bits(got.columns[name]) == bits(column), name


@pytest.fixture(autouse=True)
def loops_for_nulls_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile loops for nulls with the first block that has some."""
    monkeypatch.setattr("shoal.compiler.codegen.fused.WORTH_ROWS", 1)


def check(chain: Chain | None, steps: Sequence[Step], blocks: Sequence[Block] = (*WITH_NULLS, *BLOCKS)) -> None:
    assert chain is not None
    prepare([chain])
    with np.errstate(all="ignore"):
        for block in blocks:
            check_same(chain.apply(block), one_by_one(steps, block))


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random chains do not come twice."""
    monkeypatch.setenv("SHOAL_CACHE_DIR", "/dev/null/nowhere")


@settings(deadline=None, max_examples=5, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(chains())
def test_any_steps_give_the_same_blocks_fused(nothing_kept: None, steps: list[Step]) -> None:
    chain = fused(steps, TYPES)
    if chain is not None:
        check(chain, steps)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(chains())
def test_many_more_steps_give_the_same_blocks_fused(nothing_kept: None, steps: list[Step]) -> None:
    chain = fused(steps, TYPES)
    if chain is not None:
        check(chain, steps)


FAR = {number * 2**40: number for number in range(-3, 12)}
EXPRESSIONS: dict[str, Expression] = {
    "sum": col("i") + col("j"),
    "wraps_up": col("i") + 1 > col("i"),
    "wraps_down": (col("i") - 3 < col("i")) & (col("i") * 2 > 0),
    "wraps_abs": call("abs", "i") >= 0,
    "wraps_minus": (0 - col("i") < 0) | (col("i") // -1 < 0),
    "product": col("i") * col("j"),
    "mixed": col("i") - col("x"),
    "quotient": col("i") / col("j"),
    "by_three": col("i") // 3,
    "by_minus_three": col("i") % -3,
    "by_minus_one": col("i") // -1,
    "rest_of_minus_one": col("i") % -1,
    "by_zero": Binary("floordiv", col("i"), lit(0)),
    "rest_of_zero": Binary("mod", col("i"), lit(0)),
    "float_by": col("x") // -0.75,
    "float_rest": col("x") % -0.75,
    "float_by_zero": Binary("floordiv", col("x"), lit(0.0)),
    "float_rest_of_zero": Binary("mod", col("x"), lit(0.0)),
    "float_by_float": Binary("floordiv", col("x"), col("y")),
    "equal": col("x") == col("y"),
    "int_and_float": col("i") <= col("x"),
    "conditions": col("flag") >= (col("x") != col("x")),
    "nor": ~(col("flag") | (col("i") > 0)),
    "few": col("i").is_in([0, 2**63 - 1]),
    "many": col("i").is_in(range(-20, 20, 3)),
    "many_far": col("i").is_in(FAR),
    "many_floats": col("x").is_in([0.5 * number for number in range(20)]),
    "near": lookup("i", {number: number * 7 for number in range(-5, 6)}, -1),
    "far": lookup("i", {**FAR, 2**63 - 1: 5, -(2**63): 6}, -1),
    "to_float": lookup("i", {1: 0.5, 2: -0.0}, 1e300),
    "to_text": lookup("i", {1: "one", 2: "two"}, "?"),
    "of_text": lookup("s", {"a": 1.5, "car": 2.5}, 0.0),
    "text_of_text": lookup("s", {"a": "A"}, "-"),
    "upper": call("upper", "s"),
    "same_text": call("as_string", "s"),
    "length": call("as_int64", call("length", "r")) + 1,
    "later": col("s") > "b",
    "one_of": (col("s") == "car") | col("r").is_in(["", "日本"]),
    "floor": floor("x"),
    "ceil": call("ceil", "y"),
    "round": round_("x"),
    "whole": call("as_int64", "y"),
    "flag_as_int": call("as_int64", "flag"),
    "as_float": call("as_float64", "i"),
    "floor_of_int": floor("i"),
    "abs": call("abs", "i"),
    "abs_float": call("abs", "x"),
    "distance": call("distance", "x", "y", "i", lit(2.5)),
    "root": call("sqrt", "x"),
    "least": call("least", "i", "j", lit(3)),
    "chosen": if_(col("flag"), col("i"), col("x")),
    "chosen_constant": if_(col("x") > 0, 1, 0),
    "hour": call("hour", "ts"),
    "minute": call("minute", "due"),
    "second": call("second", "ts"),
    "smallest": lit(-(2**63)),
    "constant": lit(2**62) + lit(2**62),
    "infinite": lit(-1) / lit(0),
    "text": lit("x"),
    "nan_or_more": (col("x") >= col("y")) & (col("x") < 1.5),
    "is_null": is_null("x"),
    "text_is_null": is_null("s"),
    "both_null": is_null("i") & is_null("s") | is_null("flag"),
    "first": coalesce("i", "j", lit(0)),
    "first_float": coalesce("x", "i"),
    "first_text": coalesce("s", lit("none")),
    "unlike": nullif("i", 1),
    "unlike_column": nullif("x", "y"),
    "unlike_text": nullif("s", lit("car")),
    "unlike_itself": nullif("flag", "flag"),
    "same": is_same("x", "y"),
    "same_constant": is_same("i", 1),
    "null": null("float64"),
    "null_text": null("string"),
    "of_null": null("int64") + col("i"),
    "or_null": null("bool") | col("flag"),
    "greatest": call("greatest", "i", "j"),
    "upper_or_null": call("upper", nullif("s", lit("a"))),
    "chosen_null": if_(col("x") > 0, null("int64"), col("i")),
}


def test_every_kind_of_expression_has_a_loop_of_its_own_kind() -> None:
    steps: list[Step] = [Filter(~col("flag") | (col("i") != 1)), Select(tuple(EXPRESSIONS.items()))]
    chain = fused(steps, TYPES)
    assert chain is not None
    assert len(chain.steps) == 1
    check(chain, steps)
    (loop,) = chain.fused
    assert loop.has_loop_for_nulls


def test_steps_that_only_ask_for_nulls_see_them() -> None:
    steps: list[Step] = [Select((("missing", is_null("x")), ("i", col("i")))), Filter(~col("missing"))]
    check(fused(steps, TYPES), steps)


def test_a_lookup_join_has_nulls_where_it_has_no_defaults() -> None:
    columns: Any = (("limit", "float64", (0.5, None)), ("label", "string", ("one", "two")), ("rank", "int64", (1, 2)))
    defaults = (("limit", 1.5), ("label", None), ("rank", None))
    steps: list[Step] = [
        Attach("i", (1, 2), columns, defaults),
        Select((("label", call("upper", "label")), ("more", col("limit") + col("rank")), ("known", col("has_right")))),
        Filter(~is_same(col("label"), lit("TWO"))),
    ]
    chain = fused(steps, TYPES)
    check(chain, steps)
    assert chain is not None
    assert len(chain.steps) == 1


def test_blocks_with_few_nulls_go_through_the_steps_until_a_loop_is_worth_it(
    monkeypatch: pytest.MonkeyPatch, nothing_kept: None
) -> None:
    monkeypatch.setattr("shoal.compiler.codegen.fused.WORTH_ROWS", 3000)
    steps: list[Step] = [Filter(col("i") > 17), Select((("twice", col("i") * 2), ("x", col("x"))))]
    chain = fused(steps, TYPES)
    assert chain is not None
    prepare([chain])
    (loop,) = chain.fused
    ready = []
    for block in (WITH_NULLS[0], BLOCKS[0], WITH_NULLS[0], WITH_NULLS[1]):
        check_same(chain.apply(block), one_by_one(steps, block))
        ready.append(loop.has_loop_for_nulls)
    assert ready == [False, False, True, True]


def test_without_a_filter_columns_are_passed_as_they_are() -> None:
    steps: list[Step] = [
        Select((("s", col("s")), ("i", col("i")), ("twice", col("i") * 2))),
        DispatchByGroup(("i", "s"), 5),
    ]
    chain = fused(steps, TYPES)
    check(chain, steps)
    assert chain is not None
    block = BLOCKS[0]
    assert chain.apply(block).columns["i"] is block.columns["i"]
    assert chain.apply(block).columns["s"] is block.columns["s"]


def test_where_no_row_goes_columns_are_passed_as_they_are() -> None:
    steps: list[Step] = [Filter(col("i") >= -(2**63)), DispatchByGroup(("i",), 3)]
    chain = fused(steps, TYPES)
    check(chain, steps)
    assert chain is not None
    got = chain.apply(BLOCKS[0]).columns
    assert all(got[name] is column for name, column in BLOCKS[0].columns.items())


def test_constants_that_steps_have_made_go_on_as_constants() -> None:
    made = Select((("most", lit(2**63 - 1)), ("least", lit(-(2**63))), ("text", lit("car")), ("half", lit(0.5))))
    steps: list[Step] = [
        made,
        Select(
            (
                ("most", col("most")),
                ("least", col("least")),
                ("wrapped", col("most") - col("least")),
                ("upper", call("upper", "text")),
                ("number", lookup("text", {"car": 3}, 0)),
                ("half", floor("half")),
            )
        ),
        DispatchByValue("least", (5, -(2**63))),
        DispatchByGroup(("most", "number"), 7),
        Attach("upper", ("CAR",), (("label", "string", ("c",)), ("rank", "int64", (1,))), None),
        Filter(col("label") == "c"),
    ]
    check(fused(steps, TYPES), steps)


def test_windows_that_overlap_repeat_rows_with_their_texts() -> None:
    steps: list[Step] = [
        Assign(Window(6_000_000, 2_000_000), "ts"),
        Filter(col("window_end") > col("due")),
        DispatchByGroup((), 1),
    ]
    check(fused(steps, TYPES), steps)


@pytest.mark.parametrize("name", ["ysb", "nyt", "linear-road", "nexmark"])
def test_the_steps_of_workloads_fuse_as_a_whole(name: str) -> None:
    job = workload(name).ready(7, Amount(5000), {}).job
    program = compile_graph(job.graph)
    of_streams = [(o, f) for o, ways in program.feeds.items() if isinstance(o, str) for _, f in ways]
    for stream, feed in of_streams:
        schema, columns = program.inputs[stream].schema, program.columns(stream)
        source: Any = job.sources[stream]
        whole = Block.from_arrow(source.made_by.batch(0, 5000))
        block = Block({column: whole.columns[column] for column in columns}, whole.length)
        chain = fused(feed.steps, {column: schema.type_of(column) for column in columns}, fewest=1)
        assert chain is not None
        assert len(chain.steps) == 1
        check(chain, feed.steps, [block, Block({n: c[:100] for n, c in block.columns.items()}, 100)])


@udf("int64")
def own(i: Any) -> Any:
    return i + 1


PASSING: Step = Filter(col("i") > 0)
DOUBLED: Step = Select((("i", col("i") * 2), ("x", col("x"))))
OWN: Step = Select((("i", own("i")), ("x", col("x"))))


@pytest.mark.parametrize(
    ("steps", "loops"),
    [
        pytest.param([PASSING, DOUBLED, OWN, DOUBLED, PASSING], 2, id="around a function of the user's own"),
        pytest.param([OWN, DOUBLED], 1, id="behind one"),
        pytest.param([PASSING, Filter(call("exp", "x") > 1)], 1, id="before an exponential"),
        pytest.param([PASSING, Filter(col("s") == col("r"))], 1, id="before texts of two columns"),
        pytest.param([PASSING, Select((("t", call("as_int64", "s")),))], 1, id="before texts that may be no numbers"),
    ],
)
def test_what_has_no_loop_stays_between_loops(steps: list[Step], loops: int) -> None:
    chain = fused(steps, TYPES)
    assert chain is not None
    assert len(chain.fused) == loops
    assert len(chain.steps) < len(steps) + loops
    if "as_int64" not in steps[-1].text:
        check(chain, steps)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([], id="nothing"),
        pytest.param([DispatchByGroup(("i",), 3)], id="a single dispatch"),
        pytest.param([Select((("i", col("i")),))], id="columns left out"),
        pytest.param([OWN], id="a function of the user's own"),
        pytest.param([Filter(call("ln", "x") > 1)], id="a logarithm"),
        pytest.param([Filter(call("least", "x", "y") > 1)], id="the lesser of two floats, of which both may be zero"),
    ],
)
def test_where_a_loop_is_impossible_or_worth_nothing_there_is_none(steps: list[Step]) -> None:
    assert fused(steps, TYPES) is None


def test_how_few_steps_are_worth_a_loop_can_be_said() -> None:
    assert fused([DispatchByGroup(("i",), 3)], TYPES, fewest=1) is not None


def test_blocks_of_other_types_go_through_the_steps_one_by_one() -> None:
    steps: list[Step] = [PASSING, DOUBLED]
    others = [
        Block({**BLOCKS[0].columns, "i": BLOCKS[0].columns["i"].astype(np.int32)}, BLOCKS[0].length),
        Block({name: BLOCKS[0].columns[name] for name in ("x", "i")}, BLOCKS[0].length),
        Block({**BLOCKS[0].columns, "more": np.zeros(BLOCKS[0].length)}, BLOCKS[0].length),
    ]
    check(fused(steps, TYPES), steps, [*others, *BLOCKS])


def test_columns_in_any_memory_are_read() -> None:
    steps: list[Step] = [PASSING, DOUBLED]
    wide = np.arange(40, dtype=np.int64).reshape(20, 2)
    frozen = np.linspace(0, 1, 20)
    frozen.setflags(write=False)
    strided = Block({"i": wide[:, 1], "x": frozen}, 20)
    check(fused(steps, {"i": "int64", "x": "float64"}), steps, [strided])


def test_texts_may_come_with_another_dictionary_each_time() -> None:
    steps: list[Step] = [Filter(col("s") != "a"), Select((("n", call("length", "s")), ("s", col("s"))))]
    texts = [pa.array(["a", "bb", "a"]), pa.array(["bb", "c", "a"]), pa.array(["bb", "c", "a"])]
    blocks = [Block({"s": array.dictionary_encode()}, 3) for array in texts]
    blocks += [Block({"s": array[1:]}, 2) for array in texts]
    narrow = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array(["a", "bb"]))
    check(fused(steps, {"s": "string"}), steps, [*blocks, Block({"s": narrow}, 2)])


def test_columns_nobody_wants_are_left_out() -> None:
    steps: list[Step] = [PASSING, DispatchByGroup(("i",), 3)]
    chain = fused(steps, TYPES, wanted={"x", INSTANCE})
    assert chain is not None
    prepare([chain])
    got, wanted = chain.apply(BLOCKS[0]), one_by_one(steps, BLOCKS[0])
    check_same(got, Block({name: wanted.columns[name] for name in ("x", INSTANCE)}, wanted.length))


def test_the_types_behind_steps_are_those_of_their_blocks() -> None:
    steps: list[Step] = [OWN, DispatchByGroup(("i",), 2)]
    assert types_after(steps, TYPES) == {"i": "int64", "x": "float64", INSTANCE: "int64"}
    assert types_after([Select((("a", col("missing")),))], TYPES) is None


@pytest.mark.parametrize("share", [1.0, 0.9, 0.2], ids=["all rows", "most rows", "few rows"])
def test_the_result_of_many_rows_is_not_overwritten_by_the_next(share: float) -> None:
    steps: list[Step] = [Filter(col("x") < share), Select((("y", col("x") * 2), ("n", col("n"))))]
    chain = fused(steps, {"x": "float64", "n": "int64"})
    assert chain is not None
    prepare([chain])
    drawn = np.random.default_rng(1).random((3, LASTING_ROWS))
    blocks = [Block({"x": x, "n": np.arange(x.size)}, x.size) for x in drawn]
    for block, made in [(block, chain.apply(block)) for block in blocks]:
        check_same(made, one_by_one(steps, block))
