"""A host that is gone for good takes with it what had not left it, and exactly that is reported."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.small_city import city, result_tables

from shoal.errors import RunError
from shoal.language.python.flow import QUERY
from shoal.mechanisms.catalog import MECHANISMS
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted, MoveReport
from shoal.session.run import Run, start

FAST = ("megaphone", "lazy-utility", "rhino")
"""Mechanisms that are always tested, one of each kind of loss."""
THREE_HOSTS = """\
hosts:
- {{name: a, cores: 1}}
- {{name: b, cores: 1}}
- {{name: c, cores: 1}}
links:
- {{from: a, to: b, bandwidth: {bandwidth}, latency: 1ms}}
- {{from: a, to: c, bandwidth: {bandwidth}, latency: 1ms}}
"""
MACHINE = THREE_HOSTS + "outages:\n- {{{what}, at: 3.05 s}}\n"


def run_with(
    tmp_path: Path, mechanism: str | None, *, bandwidth: str = "2Mbit", what: str = "host: b", **conf: str
) -> Run:
    """A run in which the second host goes, after all instances began to leave it, if there is a mechanism."""
    machine = tmp_path / "machine.yaml"
    machine.write_text(MACHINE.format(bandwidth=bandwidth, what=what))
    ready = city(events=3_000, rate=600.0)
    given = {"detail": "rows", "topology": str(machine), "step_s": "0.05", "source": "outside", **conf}
    run = start(ready.job, on="simulated", workers=2, policy="round-robin", mechanism=mechanism, conf=given)

    def act(run: Run, event: EpochCommitted) -> None:
        if mechanism is not None and abs(event.at_s - 3.0) < 1e-6:
            run.rebind(Binding.of(dict.fromkeys(run.job.graph.stateful_instances, 0), 2))

    run.wait(act)
    return run


def losses(run: Run) -> list[MoveReport]:
    return [move for event in run.finished for move in event.moves if move.lost is not None]


def wrong_queries(run: Run) -> set[str]:
    """The queries whose results differ from the oracle's."""
    expected = city(events=3_000, rate=600.0).expected(run.consumed)
    wrong = set[str]()
    for name, table in result_tables(run).items():
        got, wanted = (_rows_by_query(name, each) for each in (table.drop_columns([QUERY]), expected[name]))
        wrong |= {query for query in {*got, *wanted} if got.get(query) != wanted.get(query)}
    return wrong


def _rows_by_query(name: str, table: pa.Table) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in table.to_pylist():
        rounded = [round(value, 6) if isinstance(value, float) else value for _, value in sorted(row.items())]
        found.setdefault(f"{name}[{row['region']}]", []).append(repr(rounded))
    return {query: sorted(rows) for query, rows in found.items()}


@pytest.mark.parametrize(
    "mechanism",
    [None, *(pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in MECHANISMS)],
)
def test_only_queries_with_a_reported_loss_have_other_results(tmp_path: Path, mechanism: str | None) -> None:
    run = run_with(tmp_path, mechanism, bandwidth="200kbit")
    reported = {query.query for move in losses(run) for query in (move.lost.queries if move.lost else ())}
    assert wrong_queries(run) <= reported
    if mechanism in (None, "drop"):
        assert reported


def test_nothing_is_lost_if_everything_arrives_in_time(tmp_path: Path) -> None:
    run = run_with(tmp_path, "all-at-once", bandwidth="100Mbit")
    assert losses(run) == []
    assert wrong_queries(run) == set()


def test_a_host_without_links_is_gone_too(tmp_path: Path) -> None:
    run = run_with(tmp_path, None, what="link: [b, a]")
    assert losses(run)


def test_a_host_that_reads_a_source_must_not_go(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="reads a source"):
        run_with(tmp_path, None, what="host: a", source="worker")
