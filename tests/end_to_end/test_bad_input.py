"""Bad input, from the file to the user: one clear error and nothing half done, or a dead letter with a count."""

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.small_city import REGIONS, city_events, result_tables

from shoal.connectors.sinks import MemorySink, ParquetSink
from shoal.connectors.sources.files import Files
from shoal.errors import SourceError
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.run import Run, start
from shoal.workloads.traffic.oracle import expected
from shoal.workloads.traffic.queries import STREAM, queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 4
FILE_ROWS = 1_500


class Inbox:
    """A directory of vehicle reports in which one file can be spoiled and put right."""

    def __init__(self, root: Path) -> None:
        self.path = root / "events"
        self.path.mkdir()
        for number in range(FILES):
            self.put(number, self.events(number))

    def events(self, number: int) -> pa.Table:
        events = pa.table(city_events().batch(number * FILE_ROWS, (number + 1) * FILE_ROWS))
        return events.set_column(3, "vehicle_type", events["vehicle_type"].cast(pa.string()))

    def file(self, number: int) -> Path:
        return self.path / f"{number}.parquet"

    def put(self, number: int, events: pa.Table) -> Path:
        """Write a file whole, a second younger than the one before it."""
        hidden = self.path / f".{number}"
        pq.write_table(events, hidden, row_group_size=400)
        self.age(hidden, number)
        return hidden.rename(self.file(number))

    def age(self, path: Path, number: int) -> None:
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    def cut(self, number: int) -> None:
        content = self.file(number).read_bytes()
        self.file(number).write_bytes(content[: len(content) // 2])
        self.age(self.file(number), number)

    def without_speed(self, number: int) -> None:
        self.put(number, self.events(number).drop_columns(["speed"]))

    def job(self, **options: Any) -> Job:
        source = Files(str(self.path), files_per_epoch=1, follow=False, **options)
        return Job.of("inbox", queries(REGIONS), {STREAM: source})

    def expected_results(self) -> dict[str, pa.Table]:
        return expected(f"{self.path}/*.parquet")


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path)


def dead_letters(run: Run) -> list[dict[str, str]]:
    assert isinstance(run.sink, MemorySink | ParquetSink)
    return run.sink.table("dead_letters").to_pylist()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(Inbox.cut, "cannot read {} as parquet", id="a truncated file"),
        pytest.param(Inbox.without_speed, "'speed'", id="a file without a column", marks=pytest.mark.slow),
    ],
)
def test_a_bad_file_ends_the_run_and_once_repaired_it_goes_on(
    spoil: Callable[[Inbox, int], None], reason: str, inbox: Inbox, spark: "SparkSession", tmp_path: Path
) -> None:
    kept: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "sink": ParquetSink(str(tmp_path / "results"))}
    spoil(inbox, 2)
    with pytest.raises(SourceError) as failed:
        start(inbox.job(), spark=spark, **kept).wait()
    assert str(inbox.file(2)) in str(failed.value)
    assert reason.format(inbox.file(2)) in str(failed.value)
    assert "\n" not in str(failed.value)
    committed = (tmp_path / "checkpoint" / "epochs").iterdir()
    assert sorted(path.name for path in committed) == ["0000000000", "0000000001"]
    assert not list((tmp_path / "results").rglob("epoch-0000000002.parquet"))
    inbox.put(2, inbox.events(2))
    run = start(inbox.job(), spark=spark, **kept)
    run.wait()
    assert run.consumed == FILES * FILE_ROWS
    assert differences(result_tables(run), inbox.expected_results()) == []


def test_a_bad_file_may_be_passed_over(inbox: Inbox, spark: "SparkSession") -> None:
    inbox.cut(1)
    run = start(inbox.job(on_bad_file="dead-letter"), spark=spark)
    tally = run.wait()
    assert tally.events == (FILES - 1) * FILE_ROWS
    assert dict(tally.refusals) == {"file": 1}
    (letter,) = dead_letters(run)
    assert (letter["stream"], letter["reason"], letter["place"]) == (STREAM, "file", str(inbox.file(1)))
    inbox.file(1).unlink()
    assert differences(result_tables(run), inbox.expected_results()) == []


def test_rows_that_are_not_what_the_schema_says_are_dead_letters(inbox: Inbox, spark: "SparkSession") -> None:
    rows = inbox.events(1).to_pylist()
    rows[10]["region"] = None
    rows[20]["ts"] += dt.timedelta(days=365 * 100)
    texts = [str(row["speed"]) for row in rows]
    texts[40] = "fast"
    spoiled = pa.Table.from_pylist(rows, inbox.events(1).schema).set_column(4, "speed", pa.array(texts))
    inbox.put(1, spoiled)
    run = start(inbox.job(), spark=spark)
    tally = run.wait()
    letters = {letter["place"]: letter for letter in dead_letters(run)}
    assert tally.events == FILES * FILE_ROWS
    assert tally.dead_letters == sum(tally.refusals.values()) == len(letters) == 3
    assert {where: letter["reason"] for where, letter in letters.items()} == {
        f"{inbox.file(1)}, row 10": "null",
        f"{inbox.file(1)}, row 20": "future",
        f"{inbox.file(1)}, row 40": "type",
    }
    assert '"speed": "fast"' in letters[f"{inbox.file(1)}, row 40"]["row"]
    good = [row for number, row in enumerate(rows) if number not in (10, 20, 40)]
    inbox.put(1, pa.Table.from_pylist(good, inbox.events(1).schema))
    assert differences(result_tables(run), inbox.expected_results()) == []


def test_late_rows_are_counted_and_kept_by_every_operator_that_misses_them(inbox: Inbox, spark: "SparkSession") -> None:
    """The last file comes when 15 s are over: too late for windows of 10 s, not for those of 20 s and 30 s."""
    last, late = inbox.events(FILES - 1), inbox.events(0).slice(0, 5)
    inbox.put(FILES - 1, pa.concat_tables([last, late]))
    run = start(inbox.job(), spark=spark)
    tally = run.wait()
    assert dict(tally.refusals) == {"late": 5}
    letters = dead_letters(run)
    assert len(letters) == tally.dead_letters == 5
    assert all("has closed all windows of this row" in letter["detail"] for letter in letters)
    inbox.put(FILES - 1, last)
    assert differences(result_tables(run), {"vehicle_count": inbox.expected_results()["vehicle_count"]}) == []
