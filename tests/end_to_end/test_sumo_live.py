"""A simulation that runs with the run gives the results that its recorded floating-car data has."""

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest
from tests.recorded_sumo import CITY, FAILS, drive, floating_cars, recorded_sumo
from tests.small_city import result_tables

from shoal import Job, Stream, count, start, tumbling
from shoal.connectors.sinks import ParquetSink
from shoal.connectors.sources.source import Source
from shoal.connectors.sources.sumo import Sumo
from shoal.connectors.sources.sumo_process import sumo_program
from shoal.errors import SourceError
from shoal.session.digest import differences
from shoal.workloads.traffic.oracle import expected
from shoal.workloads.traffic.queries import TRAFFIC
from shoal.workloads.workload import Amount, Ready

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REGIONS = 4
START_US = Sumo.start_us


def traffic(source: Source) -> Ready:
    return TRAFFIC.ready(0, Amount(), {"regions": str(REGIONS)}, source)


def events_of(text: str) -> pa.Table:
    """The events of recorded floating-car data of the city, which is 1000 m wide and 500 m high: 2 x 2 regions."""
    rows = []
    for step in ET.fromstring(text):
        for vehicle in step:
            x, y = float(vehicle.attrib["x"]), float(vehicle.attrib["y"])
            region = (x >= 500) + 2 * (y >= 250)
            ts = START_US + round(float(step.attrib["time"]) * 1e6)
            own = {"vehicle_type": vehicle.attrib["type"], "speed": 3.6 * float(vehicle.attrib["speed"])}
            rows.append({"ts": ts, "region": region, **own})
    table = pa.Table.from_pylist(rows)
    return table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us")))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Sumo, str]:
    """A simulation that is a recording, and the recording."""
    monkeypatch.setenv("SUMO_HOME", str(tmp_path / "sumo"))
    text = floating_cars(drive(60, vehicles=12))
    return Sumo(recorded_sumo(tmp_path / "sumo", text), rows_per_epoch=100), text


@pytest.mark.parametrize("on", ["reference", "local"])
def test_a_live_run_has_the_results_of_the_recorded_data(on: str, recorded: tuple[Sumo, str]) -> None:
    source, text = recorded
    ready = traffic(source)
    run = start(ready.job, on=on)
    assert run.wait().dead_letters == 0
    tables = result_tables(run)
    assert differences(tables, expected(events_of(text))) == []
    assert differences(tables, ready.expected(run.consumed)) == []


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_on_spark_that_was_interrupted_goes_on_with_the_simulation(
    spark: "SparkSession", recorded: tuple[Sumo, str], tmp_path: Path
) -> None:
    source, text = recorded
    sink, checkpoint = ParquetSink(str(tmp_path / "results")), str(tmp_path / "checkpoint")
    program = Path(source.scenario).parent / "bin" / "sumo"
    whole = program.read_text()
    program.write_text(whole.replace("output.write(text)", f"output.write(text[:len(text) // 2]); {FAILS}"))
    first = start(traffic(source).job, spark=spark, checkpoint=checkpoint, sink=sink)
    with pytest.raises(SourceError, match="no edge"):
        first.wait()
    assert first.consumed > 0
    program.write_text(whole)
    run = start(traffic(source).job, spark=spark, checkpoint=checkpoint, sink=sink)
    run.wait()
    assert run.consumed == events_of(text).num_rows
    assert differences({name: sink.table(name) for name in sink.names()}, expected(events_of(text))) == []


def test_the_columns_of_sumo_can_be_used_by_any_query(recorded: tuple[Sumo, str]) -> None:
    source, text = recorded
    cars = Stream("cars", {"ts": "timestamp", "edge": "string", "id": "string"}, time="ts")
    query = cars.key_by("edge").window(tumbling(10)).aggregate(n=count()).sink("busy")
    run = start(Job.of("edges", [query], {"cars": source}), on="reference")
    run.wait()
    found = result_tables(run)["busy"]
    number = dict.fromkeys(("east", "on"), 0)
    for edge, n in zip(found["edge"].to_pylist(), found["n"].to_pylist(), strict=True):
        number[edge] += n
    assert number == {edge: text.count(f'lane="{edge}_0"') for edge in number}


def test_simulated_time_cannot_wait_for_a_simulation(recorded: tuple[Sumo, str]) -> None:
    with pytest.raises(ValueError, match="simulated time cannot wait for a program that runs"):
        start(traffic(recorded[0]).job, on="simulated")


def installed() -> str:
    """The path of SUMO; empty if it is not installed."""
    try:
        return sumo_program(os.environ.get("SUMO_HOME")).path
    except SourceError:
        return ""


@pytest.mark.skipif(not installed(), reason="SUMO is not installed; pip install 'shoal[sumo]'")
@pytest.mark.parametrize("on", ["reference", "local"])
def test_sumo_itself_gives_the_results_of_its_own_recording(on: str, tmp_path: Path) -> None:
    scenario, recording = str(CITY / "city.sumocfg"), tmp_path / "fcd.xml"
    command = [installed(), "-c", scenario, "--seed", "7", "--no-step-log", "--fcd-output", str(recording)]
    subprocess.run(command, check=True, capture_output=True, env=dict(os.environ))
    run = start(traffic(Sumo(scenario, seed=7)).job, on=on)
    assert run.wait().events > 1000
    assert differences(result_tables(run), expected(events_of(recording.read_text()))) == []
