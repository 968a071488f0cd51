"""Queries that are programs: a function of a Python file, written `FILE.py:FUNCTION` instead of a text.

>>> program_of("queries/nexmark.py:hot_items")
QueryProgram(file='queries/nexmark.py', function='hot_items')
>>> program_of("SELECT auction FROM bid") is None
True
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = re.compile(r"\s*([\w./-]+\.py):(\w+)\s*")


@dataclass(frozen=True)
class QueryProgram:
    """A function of a Python file; the path is relative to the file of the experiment."""

    file: str
    function: str

    def fault(self, directory: Path) -> str:
        """What is wrong with it, empty if nothing is; the file is parsed, not run."""
        path = directory / self.file
        if not path.is_file():
            return f"there is no file {path}"
        try:
            body = ast.parse(path.read_bytes()).body
        except (SyntaxError, ValueError) as error:
            return f"{path} is not Python: {error}"
        known = [each.name for each in body if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")]
        if self.function not in known:
            return f"{path.name} has no function {self.function!r}; there are {', '.join(known) or 'none'}"
        return ""


def program_of(text: str) -> QueryProgram | None:
    """The program that a text names; none if it is a text in a language of queries."""
    found = _PROGRAM.fullmatch(text)
    return QueryProgram(found[1], found[2]) if found else None
