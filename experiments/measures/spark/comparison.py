"""One engine on files of events: results first, then rates, plain and marginal.

An engine runs at two sizes after a first run that warms it up. The plain rate is that of the larger one; the marginal
rate is the difference in rows over the difference in time, which leaves out what an engine pays once per run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from measures.outcome import checked
from measures.spark.dataset import Dataset
from measures.spark.engine_run import EngineRun
from shoal.experiments.experiment import TrialOutcome
from shoal.session.digest import differences, result_digest

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Case:
    """Files of a larger and a smaller run, and how many of them are an epoch."""

    data: Dataset
    files_per_epoch: int
    epochs: int

    @property
    def rows_per_epoch(self) -> int:
        """Rows of all files of an epoch."""
        return self.files_per_epoch * self.data.rows_per_file

    @property
    def sizes(self) -> tuple[Dataset, Dataset]:
        """About a third of the epochs, and all of them."""
        fewer = max(1, self.epochs // 3)
        return self.data.first(fewer * self.files_per_epoch), self.data.first(self.epochs * self.files_per_epoch)


@dataclass(frozen=True)
class Contender:
    """How an engine is run; `emits_all` is false where the last windows of a run stay open."""

    run: Callable[[Dataset, Case], EngineRun]
    emits_all: bool = True


class WrongResultError(RuntimeError):
    """An engine has left input unread: its time is not valid."""


def compared(
    contender: Contender, case: Case, oracle: Callable[[Dataset], Tables], time: str, *, warm_up: bool
) -> TrialOutcome:
    """Run at both sizes and compare with the oracle; digests are of windows that all engines close, without floats."""
    small, large = case.sizes
    metrics: dict[str, float] = {}
    if warm_up:
        cold = _run(contender, small, case)
        metrics |= {"cold_s": cold.elapsed_s, **_first_epoch("cold_first_epoch_s", cold)}
    less, more = _run(contender, small, case), _run(contender, large, case)
    wrong = []
    for size, found in ((small, less), (large, more)):
        expected = oracle(size)
        wanted = expected if contender.emits_all else closed(expected, size.newest(time))
        wrong += differences(found.tables, wanted)
    metrics |= {
        "rows_per_s": more.rate,
        "cpu_s_per_million_rows": more.cpu_s / more.rows * 1e6,
        **_first_epoch("first_epoch_s", more),
    }
    if more.elapsed_s > less.elapsed_s and more.rows > less.rows:
        metrics["marginal_rows_per_s"] = (more.rows - less.rows) / (more.elapsed_s - less.elapsed_s)
    answers = digests(closed(more.tables, large.newest(time)))
    return checked(metrics, wrong, answers)


def closed(tables: Tables, until: datetime) -> Tables:
    """The windows that Spark's watermark closes: it counts milliseconds."""
    whole = until.replace(microsecond=until.microsecond // 1000 * 1000)
    return {name: table.filter(pc.field("window_end") <= pa.scalar(whole)) for name, table in tables.items()}


def digests(tables: Tables) -> dict[str, str]:
    """The digest of each table without its floats, which engines add up in different orders, and the query's name."""
    exact = {
        name: table.select([each.name for each in table.schema if _exact(each) and each.name != "query"])
        for name, table in tables.items()
    }
    return {name: result_digest({name: table}) for name, table in exact.items()}


def _exact(field: pa.Field) -> bool:
    return not pa.types.is_floating(field.type)


def _run(contender: Contender, data: Dataset, case: Case) -> EngineRun:
    found = contender.run(data, case)
    if found.rows != data.rows:
        raise WrongResultError(f"the engine took in {found.rows} rows; expected {data.rows}")
    return found


def _first_epoch(name: str, found: EngineRun) -> dict[str, float]:
    return {name: found.epochs_s[0]} if found.epochs_s else {}
