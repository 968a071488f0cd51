"""Several engines on the same files: results first, then rates, plain and marginal.

Every engine runs each case at two sizes. The plain rate is that of the larger one; the marginal rate is the
difference in rows over the difference in time, which leaves out what an engine pays once per run.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import record
import table
from dataset import Dataset, cache
from measured import Measured
from spread import Spread
from spread import text as spread_text

from shoal.experiments.machine import cores, described, sentence
from shoal.session.digest import differences

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Case:
    """A number of rows per epoch; `epochs` is the smaller and the larger size of a run."""

    data: Dataset
    files_per_epoch: int
    epochs: tuple[int, int]
    slow_epochs: tuple[int, int]

    @property
    def rows_per_epoch(self) -> int:
        return self.files_per_epoch * self.data.rows_per_file


@dataclass(frozen=True)
class Contender:
    """An engine and how it is run; `emits_all` is false where the last windows of a run stay open."""

    name: str
    run: Callable[[Dataset, Case], Measured]
    emits_all: bool = True
    slow: bool = False
    most_rows_per_epoch: int | None = None


@dataclass
class Trials:
    """What one contender did in one case."""

    contender: Contender
    case: Case
    small: list[Measured] = field(default_factory=list)
    large: list[Measured] = field(default_factory=list)

    @property
    def sizes(self) -> tuple[Dataset, Dataset]:
        small, large = self.case.slow_epochs if self.contender.slow else self.case.epochs
        per_epoch = self.case.files_per_epoch
        return self.case.data.first(small * per_epoch), self.case.data.first(large * per_epoch)

    def data(self) -> dict[str, Any]:
        pairs = zip(self.small, self.large, strict=True)
        marginal = [(b.rows - a.rows) / (b.elapsed_s - a.elapsed_s) for a, b in pairs if b.elapsed_s > a.elapsed_s]
        first = [run.epochs_s[0] for run in self.large if run.epochs_s]
        return {
            "engine": self.contender.name,
            "rows_per_epoch": self.case.rows_per_epoch,
            "rows": [size.rows for size in self.sizes],
            "rows_per_s": Spread.of(run.rate for run in self.large).data(),
            "marginal_rows_per_s": Spread.of(marginal).data() if marginal else None,
            "cpu_s_per_million_rows": Spread.of(run.cpu_s / run.rows * 1e6 for run in self.large).data(),
            "first_epoch_s": Spread.of(first).data() if first else None,
            "epochs_s": [[round(epoch, 4) for epoch in run.epochs_s] for run in self.large],
            "elapsed_s": [[round(run.elapsed_s, 4) for run in runs] for runs in (self.small, self.large)],
        }


class WrongResultError(RuntimeError):
    """An engine's results differ from the oracle's: its time is not valid."""


@dataclass
class Comparison:
    """All contenders in all cases."""

    contenders: Sequence[Contender]
    oracle: Callable[[Dataset], Tables]
    time: str
    repeat: int
    warm_up: bool = True
    say: Callable[[str], None] = lambda text: print(text, flush=True)
    _oracle_tables: dict[Any, Tables] = field(default_factory=dict)

    def measured(self, cases: Sequence[Case]) -> dict[str, Any]:
        """Warm up, then measure; the order of contenders rotates with every round."""
        cold = [self._cold(contender, cases[0]) for contender in self.contenders] if self.warm_up else []
        results = []
        for case in cases:
            trials = [Trials(contender, case) for contender in self.contenders if _fits(contender, case)]
            for number in range(self.repeat):
                for trial in (*trials[number % len(trials) :], *trials[: number % len(trials)]):
                    small, large = trial.sizes
                    trial.small.append(self._run(trial.contender, small, case))
                    trial.large.append(self._run(trial.contender, large, case))
            results += [trial.data() for trial in trials]
        return {"repeat": self.repeat, "cold": cold, "results": results}

    def _cold(self, contender: Contender, case: Case) -> dict[str, Any]:
        small, _ = Trials(contender, case).sizes
        measured = self._run(contender, small, case)
        return {
            "engine": contender.name,
            "rows": measured.rows,
            "elapsed_s": round(measured.elapsed_s, 3),
            "first_epoch_s": round(measured.epochs_s[0], 3) if measured.epochs_s else None,
        }

    def _run(self, contender: Contender, data: Dataset, case: Case) -> Measured:
        measured = contender.run(data, case)
        expected = self._expected(data)
        if measured.rows != data.rows:
            raise WrongResultError(f"{contender.name} took in {measured.rows} rows; expected {data.rows}")
        wanted = expected if contender.emits_all else _closed(expected, data.newest(self.time))
        wrong = differences(measured.tables, wanted)
        if wrong:
            raise WrongResultError(f"{contender.name} over {data.rows} rows: {'; '.join(wrong)}")
        took = f"{measured.elapsed_s:.2f} s, {measured.cpu_s:.2f} CPU s"
        self.say(f"  {contender.name}: {data.rows:,} rows in {took}, results right")
        return replace(measured, tables={}, reports=())

    def _expected(self, data: Dataset) -> Tables:
        if data not in self._oracle_tables:
            self._oracle_tables[data] = self.oracle(data)
        return self._oracle_tables[data]


def _closed(tables: Tables, until: datetime) -> Tables:
    """The windows that Spark's watermark closes: it counts milliseconds."""
    whole = until.replace(microsecond=until.microsecond // 1000 * 1000)
    return {name: table.filter(pc.field("window_end") <= pa.scalar(whole)) for name, table in tables.items()}


def _fits(contender: Contender, case: Case) -> bool:
    most = contender.most_rows_per_epoch
    return most is None or case.rows_per_epoch <= most


def measure(
    name: str,
    contenders: Sequence[Contender],
    cases: Sequence[Case],
    oracle: Callable[[Dataset], Tables],
    time: str,
    baselines: Sequence[str],
    options: argparse.Namespace,
) -> None:
    """Run a comparison as the command line asks, print its table and keep its numbers."""
    machine = described()
    print(sentence(machine), flush=True)
    wanted = [part.lower() for part in options.engines or [""]]
    chosen = [c for c in contenders if any(part in c.name.lower() for part in wanted)]
    repeat = options.repeat or (1 if options.quick else 5)
    measured = Comparison(chosen, oracle, time, repeat, warm_up=not options.quick).measured(cases)
    measured["baselines"] = list(baselines)
    print(table.plain(*rows_of_table(measured)))
    print(f"written to {record.written(name, measured, machine, options)}")


def parser(doc: str | None, rows_per_epoch: Sequence[int]) -> argparse.ArgumentParser:
    """The options every comparison has."""
    made = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    record.add_options(made, quick="one small case, once, engines cold")
    made.add_argument("--repeat", type=int, help="runs per engine and size (default 5; quick: 1)")
    default = " ".join(str(rows) for rows in rows_per_epoch)
    made.add_argument("--rows-per-epoch", type=int, nargs="+", help=f"default {default}")
    made.add_argument("--engines", nargs="+", metavar="NAME", help="only engines whose name contains one of these")
    made.add_argument("--cores", type=int, default=cores(), help="for every engine (default: all)")
    made.add_argument("--data", type=Path, default=cache(), help="where the Parquet files are kept")
    return made


def rows_of_table(measured: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table people read: rates in millions, and how many times a baseline's rate they are."""
    baselines = measured["baselines"]
    header = [
        "engine",
        "rows/epoch",
        "M rows/s",
        "marginal",
        "CPU s/M rows",
        "first epoch, s",
        *(f"x {name}" for name in baselines),
    ]
    rows = []
    for result in measured["results"]:
        of_case = {r["engine"]: r for r in measured["results"] if r["rows_per_epoch"] == result["rows_per_epoch"]}
        ratios = [
            f"{result['rows_per_s']['median'] / of_case[name]['rows_per_s']['median']:.3g}" if name in of_case else "-"
            for name in baselines
        ]
        rows.append(
            [
                result["engine"],
                f"{result['rows_per_epoch'] / 1e6:g} M",
                spread_text(_millions(result["rows_per_s"])),
                spread_text(_millions(result["marginal_rows_per_s"])),
                spread_text(result["cpu_s_per_million_rows"]),
                spread_text(result["first_epoch_s"]),
                *ratios,
            ]
        )
    return header, rows


def _millions(spread: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if spread is None:
        return None
    return {name: value if name == "n" else value / 1e6 for name, value in spread.items()}
