"""Flows over small data: the listings of the original experiments, with a dataset for them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from shoal.experiments.coordination.flow_trial import run_flow
from shoal.experiments.experiment import ExperimentFile, Parameters, TrialOutcome
from shoal.experiments.language.experiment_file import read_experiments

LISTINGS = Path(__file__).parents[1] / "listings"
FIRST_US = 1_700_000_000_000_000
ROWS = 500


def written_nexmark(path: Path, rows: int = ROWS) -> None:
    """Persons, auctions and bids, in order of time."""
    lines = []
    for n in range(rows):
        at = FIRST_US + n * 10_000
        if n % 50 == 0:
            lines.append(f"1,{at},{n},name {n},a@b.c,1234,city,OR")
        elif n % 50 in (1, 2, 3):
            lines.append(f"2,{at},{1000 + n},item,text,{n},{n + 5},{at + 1_000_000},{n},10")
        else:
            lines.append(f"3,{at},{(1007, 1020, 2001, 7)[n % 4]},{n % 9},{100 + n}")
    path.write_text("\n".join(lines) + "\n")


NAMES = {
    "1": ("ts", "id", "n", "m", "c", "city", "state"),
    "2": ("ts", "id", "i", "d", "b", "r", "e", "s", "c"),
    "3": ("ts", "auction", "bidder", "price"),
}
"""The fields of persons, auctions and bids."""


def csv_as_yaml(source: Path, target: Path) -> None:
    """The same rows as the events of a YAML file."""
    events = []
    for stream, *values in (line.split(",") for line in source.read_text().splitlines()):
        attributes = [{"name": name, "value": value} for name, value in zip(NAMES[stream], values, strict=True)]
        events.append({"stream-id": stream, "attributes": attributes})
    target.write_text(yaml.safe_dump({"cepevents": events}))


def bids_as_parquet(source: Path, target: Path) -> None:
    """The bids as two Parquet files of a directory."""
    rows = [line.split(",")[1:] for line in source.read_text().splitlines() if line.startswith("3,")]
    columns = {name: pa.array([int(row[at]) for row in rows]) for at, name in enumerate(NAMES["3"])}
    types = {"ts": pa.timestamp("us"), "auction": pa.int32(), "bidder": pa.int32(), "price": pa.int64()}
    bids = pa.table({name: column.cast(types[name]) for name, column in columns.items()})
    target.mkdir()
    for part, start in enumerate((0, bids.num_rows // 3)):
        length = bids.num_rows // 3 if part == 0 else None
        pq.write_table(bids.slice(start, length), target / f"part-{part}.parquet")


def listing_iii_1(directory: Path, quiet_ms: int = 20, loops: int = 3) -> ExperimentFile:
    """Listing III.1, with texts for our engines and fewer and shorter iterations."""
    text = (LISTINGS / "III.1.yaml").read_text()
    text = text.replace("[10, [", f"[{loops}, [").replace("[2000]", f"[{quiet_ms}]")
    for query in ("select auction, bidder, price from Bid", "select auction, price from Bid where"):
        at = text.index(f"flink: {query}")
        line = text[at : text.index("\n", at)].removeprefix("flink: ")
        text = text[:at] + f"shoal: {line}\n    duckdb: {line}\n    " + text[at:]
    path = directory / "III.1.yaml"
    path.write_text(text)
    written_nexmark(directory / "nexmark-40k.csv")
    return read_experiments(text, str(path))


def ran(
    file: ExperimentFile, point: int = 0, watch: Any = lambda *_: None, timeout_s: float = 60.0, **more: Any
) -> TrialOutcome:
    """Run the first flow of a file at one of its points."""
    experiment = replace(file.experiments[0], timeout_s=timeout_s)
    parameters: Parameters = {**experiment.points[point], **more}
    return run_flow(file, experiment, parameters, watch)
