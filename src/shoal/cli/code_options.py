"""The options by which a user names the code that files may use; nothing else in a file is run."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def code_options(command: F) -> F:
    """Add `--functions` and `--allow-pickle` to a command."""
    functions = click.option(
        "--functions",
        metavar="FILE.py",
        help="Functions (shoal.udf) and classes of aggregates that a SQL or YAML file uses by name.",
    )
    pickle = click.option(
        "--allow-pickle",
        is_flag=True,
        help="Run code that a YAML file or an unsigned checkpoint contains; only for files that you trust.",
    )
    return functions(pickle(command))
