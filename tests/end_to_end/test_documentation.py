"""What the documentation says about names, options and files must exist; its Python blocks run by themselves."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

import shoal
from shoal import errors
from shoal.cli.main import cli
from shoal.cli.target import source_from_uri
from shoal.connectors.admission import DEAD_LETTER_SCHEMA
from shoal.connectors.sinks import sink_from_uri
from shoal.errors import SourceError
from shoal.language.python.flow import Flow
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.snapshot import InstanceLoad, Snapshot
from shoal.model.control.topology import Topology
from shoal.model.query.aggregate import AGGREGATE_KINDS
from shoal.model.query.functions import FUNCTIONS
from shoal.runtimes.simulated.settings import SimulatedSettings
from shoal.session.summary import Summary, Tally
from shoal.workloads.catalog import WORKLOADS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
CLI = ROOT / "docs" / "reference" / "cli.md"
PYTHON = ROOT / "docs" / "reference" / "python.md"
MEASUREMENTS = ROOT / "docs" / "reference" / "measurements.md"
RUN = cli.commands["run"]
OTHER_OPTIONS = ("benchmarks", "messages", "studies")
"""Pages with options of scripts, or with wrong ones on purpose; test_studies.py checks those of the ledger."""
INTERNAL_METHODS = {
    "then", "changed", "fresh", "keyed", "grouped", "location", "duration_us", "without_keys", "not_inside_window",
    "column_name", "made_of", "type_of_key"
}  # fmt: skip
"""Methods of a flow that other modules use and no user does."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def commands() -> Iterator[tuple[str, str]]:
    """Every `shoal` command in a bash block, with the page it stands on."""
    for page in PAGES:
        for block in re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                if re.search(r"(^|\s)shoal\s", line):
                    yield name_of(page), line.strip()


def all_commands() -> Iterator[click.Command]:
    """Every command, those of groups included."""
    for command in cli.commands.values():
        yield from command.commands.values() if isinstance(command, click.Group) else [command]


def anchors(page: Path) -> set[str]:
    """The links that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(page: Path, heading: str) -> list[str]:
    """The first cell of every row of the tables below a heading."""
    section = page.read_text().split(f"\n{heading}", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        if not goal.exists() or (anchor and anchor not in anchors(goal)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize(("page", "line"), list(commands()))
def test_a_command_in_a_page_can_be_typed(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)
    given = dict(word.split("=", 1) for word in words[: words.index("shoal")])
    name, *arguments = words[words.index("shoal") + 1 :]
    command = cli.commands[name]
    if isinstance(command, click.Group):
        command = command.commands[arguments.pop(0)]
    known = {parameter.name: parameter for parameter in command.params}
    context = click.Context(command, info_name=name, auto_envvar_prefix=f"SHOAL_{name.upper()}")
    assert [variable for variable in given if variable not in variables(command)] == []
    command.parse_args(context, arguments)
    assert set(context.params) == set(known)
    target = str(context.params.get("target", ""))
    assert not target or target in WORKLOADS or re.fullmatch(r"[\w/.-]+(\.py:\w+|\.sql|\.yaml)", target)
    if context.params.get("sink"):
        sink_from_uri(context.params["sink"])
    if context.params.get("source"):
        with pytest.raises(SourceError, match="does not exist"):
            source_from_uri(context.params["source"], None)


def variables(command: click.Command) -> set[str]:
    return {str(p.envvar or f"SHOAL_RUN_{str(p.name).upper()}") for p in command.params}


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in OTHER_OPTIONS], ids=name_of)
def test_an_option_in_a_page_exists(page: Path) -> None:
    ours = {option for command in all_commands() for parameter in command.params for option in parameter.opts}
    ours |= {"--help", "--version"}
    others = {"--strict", "--prefix", "--disable-gil", "--no-deps"}  # those of mypy, of CPython's build and of pip
    text = page.read_text()
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert mentioned - ours - others == set()


def test_the_reference_lists_every_option_and_no_other() -> None:
    listed = [cell.split()[0] for cell in rows(CLI, "## Options of")]
    assert sorted(listed) == sorted(p.opts[0] for p in RUN.params if isinstance(p, click.Option) and p.name != "help")


def test_the_reference_has_every_workload_with_its_settings() -> None:
    text = (ROOT / "docs" / "reference" / "workloads.md").read_text()
    for name, workload in WORKLOADS.items():
        assert f"\n## {name}\n" in text
        section = text.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]
        listed = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)`", section, re.MULTILINE))
        assert listed == {setting: str(value) for setting, value in workload.settings.items()}, name


def test_the_reference_has_every_operator_aggregate_and_function() -> None:
    text = (ROOT / "docs" / "reference" / "operators.md").read_text()
    methods = {name for name, each in vars(Flow).items() if callable(each) and not name.startswith("_")}
    internal = {name for name in methods if name in INTERNAL_METHODS or name.startswith("check_")}
    assert {name for name in methods - internal if f"`{name}(" not in text} == set()
    assert {name for name in FUNCTIONS if not re.search(rf"\b{name}\b", text)} == set()
    assert {name for name in AGGREGATE_KINDS if not re.search(rf"`{name}(_|_aggregate)?\(", text)} == set()


def test_the_reference_lists_every_key_of_the_json_object() -> None:
    summary = Summary(
        "traffic", "spark", "round-robin", "megaphone", 2, Topology.of(1, 2), 0, 1.0, Tally(), "", machine={}, shed={}
    )
    assert rows(CLI, "## Output") == list(summary.data())


def test_the_reference_has_every_setting_of_the_simulated_runtime_with_its_default() -> None:
    section = CLI.read_text().split("\n## Settings of the simulated runtime\n", 1)[1].split("\n## ", 1)[0]
    listed = dict(re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`)? ?\|", section, re.MULTILINE))
    defaults = {each.name: str(each.default) for each in fields(SimulatedSettings) if each.name != "seed"}
    assert listed == {name: text.lower() if text == "False" else text for name, text in defaults.items()}


def test_the_reference_has_every_public_name() -> None:
    text = PYTHON.read_text()
    headed = {name for line in re.findall(r"^### (.+)$", text, re.MULTILINE) for name in line.split(", ")}
    assert headed == set(shoal.__all__)


def test_the_reference_has_every_error() -> None:
    defined = {name for name, kind in vars(errors).items() if isinstance(kind, type)} - {"ShoalError"}
    assert set(rows(PYTHON, "## Errors")) == defined


@pytest.mark.parametrize(
    ("heading", "record"),
    [("## EpochCommitted", EpochCommitted), ("## Snapshot", (Snapshot, InstanceLoad))],
    ids=["an epoch", "a snapshot"],
)
def test_the_reference_lists_everything_that_is_measured(heading: str, record: type | tuple[type, ...]) -> None:
    records = record if isinstance(record, tuple) else (record,)
    assert sorted(rows(MEASUREMENTS, heading)) == sorted(name for each in records for name in each.__annotations__)


def test_concepts_list_every_reason_of_a_dead_letter() -> None:
    text = (ROOT / "docs" / "concepts.md").read_text()
    columns = ", ".join(f"`{name}`" for name in DEAD_LETTER_SCHEMA.names[:-1])
    assert columns in text
    source = "".join((ROOT / "src/shoal" / name).read_text() for name in (
        "connectors/admission.py", "compiler/late.py", "runtimes/admitted.py"
    ))  # fmt: skip
    given = set(re.findall(r'(?:Refusal\(|refused\[|"range" if .* else )"(\w+)"', source))
    assert given, "the reasons are no longer written where this test looks"
    assert {reason for reason in given if f"`{reason}`" not in text} == set()
