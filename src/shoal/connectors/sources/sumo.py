"""Scenarios of the traffic simulator SUMO, which run while their vehicles are analysed."""

import gzip
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree as ET

import pyarrow as pa

from shoal.connectors.formats.floating_cars import SCHEMA
from shoal.connectors.sources.live_cursor import LiveCursor, read_pieces
from shoal.connectors.sources.source import Offset, RawBatch, Slice, Wanted
from shoal.connectors.sources.sumo_process import SumoProcess, sumo_program
from shoal.errors import ConfigError, SourceError, reason_of
from shoal.storage.directory import Directory

GZIP = b"\x1f\x8b"
NO_PROJECTION = "!"


@dataclass(frozen=True)
class Bounds:
    """The rectangle that a road network lies in, in its own coordinates."""

    min_x: float
    min_y: float
    max_x: float
    max_y: float


@dataclass(frozen=True)
class Sumo:
    """The vehicles of a scenario, one row for each in every time step, from a simulation that runs with the run.

    Columns are `ts`, `id`, `x`, `y`, `angle`, `type`, `speed` (m/s), `pos`, `lane`, `edge` and `slope`. Second 0 of
    the simulation is `start_us`. `seed` and `end_s` replace those of the scenario. With `geo`, `x` and `y` are
    longitude and latitude. `speed` is the number of simulated seconds per second; without it, the simulation is as
    fast as it can be and waits when the run is slower. A simulation with the same seed is always the same: after a
    restart it begins again, and the time steps that are stored already are skipped. `home` is the directory of SUMO,
    by default that of the environment variable SUMO_HOME, if any.
    """

    live: ClassVar[bool] = True

    scenario: str
    rows_per_epoch: int = 1_000_000
    seed: int | None = None
    end_s: float | None = None
    geo: bool = False
    speed: float | None = None
    start_us: int = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z
    home: str | None = None

    def __post_init__(self) -> None:
        """Reject limits that make no sense; make the path absolute."""
        if self.rows_per_epoch < 1:
            raise ConfigError(f"rows per epoch must be at least 1; got {self.rows_per_epoch}")
        for name in ("end_s", "speed"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} of {self.scenario!r} must be a positive number; got {value}")
        object.__setattr__(self, "scenario", str(Path(self.scenario).absolute()))
        object.__setattr__(self, "home", self.home or os.environ.get("SUMO_HOME") or None)

    @property
    def place(self) -> str:
        """What row numbers count in, for people."""
        return f"SUMO scenario {self.scenario}"

    def check(self) -> None:
        """Reject a scenario that does not exist, and a machine without SUMO; called before a run starts."""
        location = _location(self.scenario)
        if self.geo and location.get("projParameter", NO_PROJECTION) == NO_PROJECTION:
            raise ConfigError(f"geo needs a network with a projection; that of {self.scenario} has none, omit geo")
        sumo_program(self.home)

    def bounds(self) -> Bounds:
        """The rectangle around the road network."""
        text = _location(self.scenario).get("convBoundary", "")
        try:
            return Bounds(*(float(each) for each in text.split(",")))
        except (TypeError, ValueError) as error:
            raise SourceError(
                f"network of {self.scenario} must have a convBoundary of four numbers; got {text!r}"
            ) from error

    def start(self) -> Offset:
        """Before the first time step."""
        return {"step": 0, "ended": False}

    def cursor(self, directory: str) -> LiveCursor:
        """A cursor that starts the simulation when its first time steps are needed."""
        return LiveCursor(self.process, Directory(directory), self.rows_per_epoch, self.place)

    def process(self) -> SumoProcess:
        """A new simulation, from second 0 on."""
        self.check()
        return self._started(self.speed)

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch]:
        """The rows of stored time steps."""
        return self.read_wanted(piece, Wanted(tuple(columns), pa.schema([])))

    def read_wanted(self, piece: Slice, wanted: Wanted) -> Iterator[RawBatch]:
        """The same, with those of the columns that are only checked that there are."""
        return read_pieces(piece, wanted, self.place)

    def first_rows(self, number: int) -> pa.Table:
        """The first rows, of a simulation that runs for this only, as fast as it can."""
        found, rows = list[pa.RecordBatch](), 0
        process = self._started()
        with closing(process), closing(process.steps(0)) as steps:
            for step in steps:
                found.append(step)
                rows += step.num_rows
                if rows >= number:
                    break
        return pa.Table.from_batches(found, SCHEMA).slice(0, number)

    def _started(self, speed: float | None = None) -> SumoProcess:
        return SumoProcess(sumo_program(self.home), self.scenario, self._options(), self.start_us, speed)

    def _options(self) -> Mapping[str, str]:
        options = {"fcd-output.geo": str(self.geo).lower()}
        if self.seed is not None:
            options["seed"] = str(self.seed)
        if self.end_s is not None:
            options["end"] = repr(self.end_s)
        return options


def _location(scenario: str) -> Mapping[str, str]:
    """What the road network of a scenario says about its coordinates."""
    named = _element(scenario, "scenario", ("net-file", "net", "n"))
    network = str(Path(scenario).parent / (named.get("value") or named.get("v") or ""))
    return _element(network, "network", ("location",))


def _element(path: str, subject: str, names: Sequence[str]) -> Mapping[str, str]:
    """The attributes of the first element of some names, in a file that may be compressed; the rest is not read."""
    try:
        with Path(path).open("rb") as raw:
            packed = raw.read(len(GZIP)) == GZIP
        with gzip.open(path) if packed else Path(path).open("rb") as file:
            for _, element in ET.iterparse(file, events=("start",)):
                if element.tag in names:
                    return dict(element.attrib)
    except FileNotFoundError as error:
        raise SourceError(f"{subject} {path} does not exist") from error
    except OSError as error:
        raise SourceError(f"cannot read {subject} {path}: {reason_of(error)}") from error
    except ET.ParseError as error:
        raise SourceError(f"{subject} {path} must be XML of SUMO; got: {error}") from error
    raise SourceError(f"{subject} {path} must have an element <{names[0]}>; it has none")
