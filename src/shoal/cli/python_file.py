"""Python files that a user names: executed as modules; what goes wrong in them is one sentence with file and line."""

import importlib.util
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from shoal.errors import ConfigError, ShoalError, did_you_mean

_EXAMPLE = "give the name of a job in it, as in {path}:{name}"


def executed(path: Path) -> ModuleType:
    """Execute a Python file as a module."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"cannot load {path} as Python")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _explained(error, path) from error
    return module


def found_in(path: Path, name: str) -> Any:
    """What a Python file calls `name`; a function is called, without arguments."""
    module = executed(path)
    public = [each for each in vars(module) if not each.startswith("_")]
    if not hasattr(module, name):
        hint = did_you_mean(name, public) or f"; it has {', '.join(public) or 'no names'}"
        raise ConfigError(f"{path} has no name {name!r}{hint}")
    found = getattr(module, name)
    if not callable(found):
        return found
    try:
        return found()
    except Exception as error:
        raise _explained(error, path) from error


def names_of_jobs(path: Path, kind: type) -> str:
    """What to write for a file given without a name, for messages: the jobs in it, if it can be executed."""
    try:
        names = [name for name, value in vars(executed(path)).items() if isinstance(value, kind)]
    except ShoalError:
        names = []
    return _EXAMPLE.format(path=path, name=names[0] if names else "job")


def _explained(error: Exception, path: Path) -> ShoalError:
    """An error of a user's file as one sentence; one of ours keeps its kind."""
    if isinstance(error, SyntaxError):
        line = f", line {error.lineno}" if error.lineno else ""
        return ConfigError(f"{path}{line}: this is not Python: {error.msg}")
    where = _place(error, path)
    if isinstance(error, ShoalError):
        return type(error)(f"{where}: {error}")
    if isinstance(error, ModuleNotFoundError):
        return ConfigError(
            f"{where}: there is no module {error.name!r}; install it, or correct its name "
            "(modules beside the file are not found)"
        )
    if isinstance(error, NameError) and error.name:
        return ConfigError(f"{where}: there is no name {error.name!r}; {_missing_name(error.name)}")
    return ConfigError(f"{where}: {type(error).__name__}: {' '.join(str(error).split())}")


def _missing_name(name: str) -> str:
    """A hint for a name that a file uses without having it."""
    import shoal

    if hasattr(shoal, name):
        return f"add it to the imports: from shoal import {name}"
    near = did_you_mean(name, shoal.__all__).removeprefix("; ")
    return near or "import or define it first"


def _place(error: Exception, path: Path) -> str:
    """File and line of the user's code that raised."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).absolute() == path.absolute()
    ]
    return f"{path}, line {lines[-1]}" if lines else str(path)
