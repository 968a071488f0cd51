"""Errors: each is ours and also the builtin a caller would expect."""

import inspect

import pytest

from shoal import errors
from shoal.errors import ShoalError

ALL = [error for _, error in inspect.getmembers(errors, inspect.isclass)]


@pytest.mark.parametrize("error", [error for error in ALL if error is not ShoalError])
def test_every_error_is_ours_and_a_builtin(error: type[Exception]) -> None:
    assert issubclass(error, ShoalError)
    assert issubclass(error, ValueError | RuntimeError)
    assert str(error("what went wrong")) == "what went wrong"
    assert inspect.getdoc(error)
