"""The ledger of claims: every figure and table of the studies is in it, and its commands can be typed."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from shoal.cli.main import cli
from shoal.control.settings import ControlSettings
from shoal.experiments.language.experiment_file import load_experiments
from shoal.experiments.runner import RunChoice, chosen
from shoal.runtimes.registry import RUNTIMES
from shoal.workloads.catalog import WORKLOADS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "studies.md").read_text()
VERDICTS = ("holds", "does not hold", "in part", "open", "to come", "cannot be tested")
NOT_RUN = "not run yet"


def numbered(study: str, kind: str, numbers: str) -> Iterator[str]:
    """Ids of figures or tables: `numbers` are single ones and ranges, such as `1.1 I.1-3`."""
    for each in numbers.split():
        chapter, _, last = each.rpartition(".")
        first, _, end = last.partition("-")
        for number in range(int(first), int(end or first) + 1) if first.isdigit() else [first]:
            yield f"{study}-{kind}-{chapter + '.' if chapter else ''}{number}"


PRINTED = [
    *numbered("000", "fig", "1-4"),
    *numbered("000", "table", "I"),
    *numbered("001", "fig", "1-10"),
    *numbered("002", "fig", "1.1 3.1 4.1-7 I.1-14 II.1-5 III.1 IV.1-15 V.1-4"),
    *numbered("002", "table", "1.1 4.1 I.1-8 III.1-6 IV.1-18"),
    *numbered("003", "fig", "1-20"),
    *numbered("004", "fig", "1-10"),
    *numbered("004", "table", "1-2"),
]
"""Every figure and table of the five studies."""


class Row(NamedTuple):
    """One row of the ledger."""

    id: str
    claim: str
    command: str
    outcome: str
    verdict: str

    @property
    def commands(self) -> list[list[str]]:
        """The commands in words; an option alone stands for the command before it with that option."""
        found: list[list[str]] = []
        for span in re.findall(r"`([^`]+)`", self.command):
            words = shlex.split(span)
            if words[0] in ("shoal", "pytest"):
                found.append(words)
            else:
                found.append([*found[0], *words])
        return found


ROWS = [
    Row(*(cell.strip() for cell in line.strip("|").split("|")))
    for line in TEXT.splitlines()
    if re.match(r"\| \d{3}-", line)
]
COMMANDS = [pytest.param(row, words, id=f"{row.id} {n}") for row in ROWS for n, words in enumerate(row.commands)]


@pytest.mark.parametrize("printed", PRINTED)
def test_every_figure_and_table_of_the_studies_is_in_the_ledger(printed: str) -> None:
    assert re.search(rf"{re.escape(printed)}(?!\d|\.\d)", TEXT)


def test_a_claim_has_one_row_with_a_verdict() -> None:
    assert [name for name, times in Counter(row.id for row in ROWS).items() if times > 1] == []
    assert [row.id for row in ROWS if not row.verdict.startswith(VERDICTS)] == []
    assert [row.id for row in ROWS if not row.claim] == []


def test_what_is_decided_has_an_outcome_and_what_is_open_has_a_command() -> None:
    decided = [row for row in ROWS if row.verdict.startswith(("holds", "does not hold", "in part"))]
    assert [row.id for row in decided if not row.command or not row.outcome or row.outcome == NOT_RUN] == []
    assert [row.id for row in ROWS if row.verdict.startswith("open") and not (row.commands or runs_of(row))] == []
    assert [row.id for row in ROWS if row.outcome == NOT_RUN and not row.verdict.startswith(("open", "to come"))] == []


def runs_of(row: Row) -> list[str]:
    """The rows whose runs a row reads its numbers from."""
    return re.findall(r"\d{3}-[\w.-]+", row.command) if row.command.startswith("the runs of ") else []


def test_rows_that_share_runs_name_rows_with_a_command() -> None:
    with_command = {row.id for row in ROWS if row.commands}
    assert {name for row in ROWS for name in runs_of(row)} - with_command == set()


@pytest.mark.parametrize(("row", "words"), COMMANDS)
def test_a_command_of_the_ledger_can_be_typed(row: Row, words: list[str]) -> None:
    """A runtime that does not exist yet may be named only by rows that have not been run."""
    if words[0] == "pytest":
        assert [path for path in words[1:] if not (ROOT / path).exists()] == []
    elif words[1] == "experiment":
        check_experiment(words[2:])
    elif "simulated" in words and "simulated" not in RUNTIMES:
        assert (row.verdict, row.outcome) == ("open", NOT_RUN)
    else:
        check_shoal(words[1:])


def check_experiment(words: list[str]) -> None:
    """The file has the experiments, and points that are chosen among theirs."""
    command = cli.commands["experiment"]
    assert isinstance(command, click.Group)
    chosen_command = command.commands[words[0]]
    context = click.Context(chosen_command, info_name=words[0])
    chosen_command.parse_args(context, words[1:])
    given = context.params
    where = {name: values.split(",") for name, values in (each.split("=", 1) for each in given["where"])}
    assert chosen(load_experiments(str(ROOT / given["file"])), RunChoice(given["only"], where=where))


def check_shoal(words: list[str]) -> None:
    """The command line knows the options, the workload its settings, and the controller its own."""
    command = cli.commands[words[0]]
    context = click.Context(command, info_name=words[0])
    command.parse_args(context, words[1:])
    given = context.params
    target = WORKLOADS[given["target"] if "target" in given else given["name"]]
    settings = {pair.partition("=")[0] for pair in given["settings"]}
    if given.get("on") != "simulated":
        assert settings - set(target.settings) == set()
    ControlSettings.of(dict(pair.split("=", 1) for pair in given.get("control", ())))
