"""Code in a graph: the user's own functions as texts that another process can run.

A function of an installed module is written as `module:name`, so that it stays the same operator when its body
changes. Anything else (a script's own function, a lambda) is pickled by value: the text, and with it the operator's
id and its state, stays the same only as long as the function does.
"""

import base64
import importlib
import sys
from functools import lru_cache
from typing import Any

import cloudpickle

from shoal.errors import GraphError

_PICKLED = "pickle:"


def code_of(thing: Any) -> str:
    """A function or class as a text.

    >>> import math
    >>> code_of(math.sqrt)
    'math:sqrt'
    """
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if module and _importable(module, name, thing):
        return f"{module}:{name}"
    try:
        return _PICKLED + base64.b64encode(cloudpickle.dumps(thing)).decode()
    except Exception as error:
        raise GraphError(f"{thing!r} cannot be sent to another process: {error}") from error


@lru_cache(maxsize=256)
def load(code: str) -> Any:
    """The function or class that a text names.

    >>> load("math:sqrt")(9.0)
    3.0
    """
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
