"""Code in a graph: a text that stays the same as long as the function does, and runs elsewhere."""

import math
import subprocess
import sys
import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.query.some_code import Outer, triple

from shoal.errors import GraphError
from shoal.model.query.code import code_of, codes_in, load, trust


@pytest.mark.parametrize(
    ("thing", "code"),
    [
        pytest.param(math.sqrt, "math:sqrt", id="a function of C"),
        pytest.param(Counter, "collections:Counter", id="a class"),
        pytest.param(triple, "tests.model.query.some_code:triple", id="a function of a module"),
        pytest.param(Outer.Inner, "tests.model.query.some_code:Outer.Inner", id="a class within a class"),
    ],
)
def test_what_a_module_has_is_written_by_name(thing: Any, code: str) -> None:
    assert code_of(thing) == code
    assert load(code) is thing


@pytest.mark.parametrize("code", ["os:system", "this:s", "pickle:gASVAAAA", ""])
def test_what_nobody_has_vouched_for_is_not_loaded(code: str) -> None:
    with pytest.raises(GraphError, match="is not trusted: it was read from a file"):
        load(code)


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_code_is_found_at_any_depth_and_nothing_else_is_taken_for_it(plain: Any) -> None:
    assert "f:g" not in codes_in(plain)
    assert "f:g" in codes_in({"a": [plain, ["udf", "name", "f:g", "int64", plain]]})
    assert "f:g" in codes_in([{"total": ["user", "column", 0, "f:g", "int64"], "other": plain}])


def test_what_no_module_has_is_written_by_value() -> None:
    factor = 4
    code = code_of(lambda n: n * factor)
    assert code.startswith("pickle:")
    assert load(code)(3) == 12


def test_a_function_under_a_name_that_is_another_is_written_by_value() -> None:
    def triple(n: int) -> int:
        return 30 * n

    triple.__module__, triple.__qualname__ = "tests.model.query.some_code", "triple"
    code = code_of(triple)
    assert code.startswith("pickle:")
    assert load(code)(1) == 30


def test_the_same_lambda_has_the_same_text() -> None:
    def made() -> Any:
        return lambda n: n + 1

    assert code_of(made()) == code_of(made())


def test_another_process_runs_what_was_written_by_value() -> None:
    factor = 5
    code = code_of(lambda n: n * factor)
    script = f"from shoal.model.query.code import load, trust; trust([{code!r}]); assert load({code!r})(2) == 10"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param("no_such_module:f", "function 'no_such_module:f' cannot be found: No module named", id="module"),
        pytest.param("math:no_such", "function 'math:no_such' cannot be found: module 'math' has no", id="name"),
    ],
)
def test_what_is_not_there_cannot_be_loaded(code: str, message: str) -> None:
    trust([code])
    with pytest.raises(GraphError) as caught:
        load(code)
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith("its module must be installed here")


def test_what_cannot_be_pickled_cannot_be_sent() -> None:
    lock = threading.Lock()
    with pytest.raises(GraphError, match="cannot be sent to another process"):
        code_of(lambda: lock)
