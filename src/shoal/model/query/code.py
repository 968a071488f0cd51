"""Code in a graph: the user's own functions as texts that another process can run.

A function of an installed module is written as `module:name`, so that it stays the same operator when its body
changes. Anything else (a script's own function, a lambda) is pickled by value: the text, and with it the operator's
id and its state, stays the same only as long as the function does.

Loading such a text runs code: it imports a module, or unpickles. So a process loads only texts that it trusts: those
of functions that its own program holds, and those that somebody has vouched for by `trust` (a signature, the driver of
a run, or the user by name). A text that has merely been read from a file is refused.
"""

import base64
import importlib
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import cloudpickle

from shoal.errors import GraphError

_PICKLED = "pickle:"
_PLACES: Mapping[str, int] = {"udf": 2, "user": 3}
"""Where the plain forms of user functions and of user aggregates have their code."""
_TRUSTED: set[str] = set()


def code_of(thing: Any) -> str:
    """A function or class as a text, which this process then trusts.

    >>> import math
    >>> code_of(math.sqrt)
    'math:sqrt'
    """
    code = _text_of(thing)
    trust([code])
    return code


def trust(codes: Iterable[str]) -> None:
    """Let this process load some texts; only for those whose origin has been verified, or that the user has named."""
    _TRUSTED.update(codes)


def untrusted(codes: Iterable[str]) -> list[str]:
    """The texts that this process does not load, sorted."""
    return sorted(code for code in codes if code not in _TRUSTED)


def codes_in(data: Any) -> set[str]:
    """The texts of all functions and classes in plain data, e.g. in an operator's parameters.

    >>> codes_in({"condition": ["gt", ["udf", "root", "math:sqrt", "float64", ["col", "n"]], ["lit", 3]]})
    {'math:sqrt'}
    """
    found: set[str] = set()
    waiting = [data]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)
            at = _PLACES.get(each[0], len(each)) if each and isinstance(each[0], str) else len(each)
            if at < len(each) and isinstance(each[at], str):
                found.add(each[at])
    return found


def shown(code: str) -> str:
    """A text in a few characters, for errors.

    >>> shown("os:system"), shown("pickle:gASVJQAAAAA")
    ("function 'os:system'", 'a pickled function')
    """
    if code.startswith(_PICKLED):
        return "a pickled function"
    return f"function {code!r}" if len(code) <= 60 else f"function {code[:57]!r}..."


def _text_of(thing: Any) -> str:
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if module and _importable(module, name, thing):
        return f"{module}:{name}"
    try:
        return _PICKLED + base64.b64encode(cloudpickle.dumps(thing)).decode()
    except Exception as error:
        raise GraphError(f"{thing!r} cannot be sent to another process: {error}") from error


@lru_cache(maxsize=256)
def load(code: str) -> Any:
    """The function or class that a text stands for; raises `GraphError` if this process does not trust it.

    >>> import math
    >>> load(code_of(math.sqrt))(9.0)
    3.0
    >>> load("os:system")
    Traceback (most recent call last):
    shoal.errors.GraphError: function 'os:system' is not trusted: it was read from a file; see docs/security.md
    """
    if untrusted([code]):
        raise GraphError(f"{shown(code)} is not trusted: it was read from a file; see docs/security.md")
    if code.startswith(_PICKLED):
        return cloudpickle.loads(base64.b64decode(code.removeprefix(_PICKLED)))
    module, _, name = code.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise GraphError(f"function {code!r} cannot be found: {error}; its module must be installed here") from error
    return found


def _importable(module: str, name: str, thing: Any) -> bool:
    """Whether another process finds the same thing under its module and name."""
    if module == "__main__" or "<" in name or getattr(sys.modules.get(module), "__spec__", None) is None:
        return False
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is thing
