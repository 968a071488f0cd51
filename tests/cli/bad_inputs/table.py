"""The table of bad inputs: runs every command of it in this process, and renders it as a page of the documentation.

`python -m tests.cli.bad_inputs.table --update` writes the messages of today into the table and the page.
"""

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import split
from typing import Any
from unittest import mock

import yaml

from shoal.cli.main import main

TABLE = Path(__file__).with_name("inputs.yaml")
PAGE = Path(__file__).parents[3] / "docs/reference/messages.md"
INTRODUCTION = """# Messages for bad inputs

What `shoal` says when an input is wrong: the last line on stderr, and the exit code. None of these commands shows a
traceback, and none starts Spark first. This page is made from the table that the tests check
(`python -m tests.cli.bad_inputs.table --update`); `...` stands for the working directory.
"""


class SparkStartedError(BaseException):
    """A bad input got as far as starting Spark."""


@dataclass(frozen=True)
class BadInput:
    """A command in a directory with files; `exit` and `message` are what is expected of it."""

    group: str
    title: str
    command: str
    files: Mapping[str, str]
    exit: int | None
    message: str | None


@dataclass(frozen=True)
class Ending:
    """How a command ended: its exit code, the last line on stderr, and everything on stderr and stdout."""

    exit: object
    message: str
    printed: str


def bad_inputs() -> Iterator[BadInput]:
    """The rows of the table, in order."""
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    for group in table["groups"]:
        for each in group["inputs"]:
            files = {**table["shared"], **each.get("files", {})}
            for name, (old, new) in each.get("replace", {}).items():
                if files[name].count(old) < 1:
                    raise ValueError(f"{name} of {each['title']!r} must hold {old!r}")
                files[name] = files[name].replace(old, new, 1)
            yield BadInput(group["title"], each["title"], each["command"], files, each.get("exit"), each.get("message"))


def ending(bad: BadInput, directory: Path) -> Ending:
    """Run a command in a directory, in this process and without Spark."""
    for name, text in bad.files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    printed = io.StringIO()
    with (
        contextlib.chdir(directory),
        contextlib.redirect_stderr(printed),
        contextlib.redirect_stdout(printed),
        mock.patch.object(sys, "argv", ["shoal", *split(bad.command)]),
        mock.patch.dict(os.environ, {"COLUMNS": "200", "TMPDIR": str(directory)}),
        mock.patch("shoal.runtimes.spark.cluster.session.spark_session", side_effect=SparkStartedError),
    ):
        try:
            main()
            code: object = 0
        except SystemExit as end:
            code = end.code
    text = printed.getvalue().replace(f"{directory}/", "...").replace(str(directory), "...")
    return Ending(code, text.rstrip("\n").rpartition("\n")[2], text)


def rendered() -> str:
    """The page of the documentation."""
    lines, group = [INTRODUCTION.rstrip("\n")], ""
    for bad in bad_inputs():
        if bad.group != group:
            group = bad.group
            lines += ["", f"## {group}", "", "| input | command | exit code | message |", "|---|---|---|---|"]
        cells = [bad.title, f"`shoal {bad.command}`", str(bad.exit), f"`{bad.message}`"]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _update() -> None:
    """Write today's messages; entries keep their order and their other keys."""
    text = TABLE.read_text(encoding="utf-8")
    comment = text[: text.index("shared:")]
    table: dict[str, Any] = yaml.safe_load(text)
    rows = bad_inputs()
    for group in table["groups"]:
        for each in group["inputs"]:
            with tempfile.TemporaryDirectory() as directory:
                ended = ending(next(rows), Path(directory))
            each["exit"], each["message"] = ended.exit, ended.message
    dumped = yaml.dump(table, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    TABLE.write_text(comment + dumped, encoding="utf-8")
    PAGE.write_text(rendered(), encoding="utf-8")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text.rstrip("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)

if __name__ == "__main__" and sys.argv[1:] == ["--update"]:
    _update()
