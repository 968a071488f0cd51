"""Tables of experiments, for the terminal and for pages: one row per point, numbers with their spread."""

from dataclasses import dataclass

from shoal.experiments.results.answers import UNSUPPORTED
from shoal.experiments.results.point_summary import ExperimentSummary, PointSummary, varying
from shoal.experiments.results.sample_statistics import Sample


@dataclass(frozen=True)
class ResultTable:
    """A header and rows of text; the first columns, which name the point, are `names` many."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int


def table_of(summary: ExperimentSummary) -> ResultTable:
    """The points of an experiment: parameters that differ, metrics, and the verdict on the results.

    The ratio is that of the first metric to the one of the first point with the same query that has it.
    """
    varied = varying(point.parameters for point in summary.points) or ("",)
    shown = [name for name in summary.shown if any(name in point.metrics for point in summary.points)]
    repeated = any(len(values) > 1 for point in summary.points for values in point.metrics.values())
    main = shown[0] if shown else ""
    baselines = _baselines(summary, main)
    ratios = len(summary.points) > len(baselines) and any(baselines.values())
    header = (*varied, *shown, *(["RSD %"] if repeated else []), *(["ratio"] if ratios else []), "n", "answers")
    rows = []
    for point in summary.points:
        sample = point.sample(main)
        rows.append(
            (
                *(text_of(point.parameters.get(name, summary.title if not name else "")) for name in varied),
                *(cell(point.sample(name)) for name in shown),
                *([_rsd(sample)] if repeated else []),
                *([_ratio(sample, baselines.get(_query(point), 0.0))] if ratios else []),
                _number_of_trials(point),
                point.verdict.text,
            )
        )
    return ResultTable(header, tuple(rows), len(varied))


def turned(table: ResultTable) -> ResultTable:
    """The same with a column for each point, named by its parameters, and a row for each metric.

    >>> turned(ResultTable(("policy", "ms", "moves"), (("a", "1", "0"), ("b", "2", "7")), 1)).rows
    (('ms', '1', '2'), ('moves', '0', '7'))
    """
    header = (", ".join(table.header[: table.names]), *(", ".join(row[: table.names]) for row in table.rows))
    rows = zip(table.header[table.names :], *(row[table.names :] for row in table.rows), strict=True)
    return ResultTable(header, tuple(rows), 1)


def notes_of(summary: ExperimentSummary) -> list[str]:
    """What a reader must know besides the table: the spread, and what failed or is wrong."""
    found = []
    sizes = {len(values) for point in summary.points for values in point.metrics.values()}
    if sizes and max(sizes) > 1:
        certainty = Sample((0.0,) * max(sizes)).interval.certainty
        found.append(f"medians of {max(sizes)} runs, in brackets the interval of the median ({certainty:.0%} certain)")
    reasons: dict[str, list[str]] = {}
    for point in summary.points:
        texts = [*point.failures] if point.failures else []
        if point.verdict.reason and point.verdict.reason not in texts:
            texts.append(point.verdict.reason)
        for text in dict.fromkeys(texts):
            reasons.setdefault(text, []).append(point.label)
    return found + [f"{', '.join(labels)}: {text}" for text, labels in reasons.items()]


def cell(sample: Sample | None) -> str:
    """A median, with its interval if there are several measurements that differ.

    >>> cell(Sample((1.0, 2.0, 4.0))), cell(Sample((2e6,))), cell(None)
    ('2 (1-4)', '2 M', '')
    """
    if sample is None:
        return ""
    interval = sample.interval
    if interval.low == interval.high:
        return number(sample.median)
    unit = 1e6 if abs(sample.median) >= 1e6 else 1.0
    low, middle, high = (number(value / unit) for value in (interval.low, sample.median, interval.high))
    return f"{middle}{' M' if unit > 1 else ''} ({low}-{high})"


def number(value: float) -> str:
    """A number with three digits, more if it is whole or large.

    >>> number(1234567), number(12345.6), number(0.012345), number(128.0)
    ('1.23 M', '12,346', '0.0123', '128')
    """
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M" if abs(value) < 1e9 else f"{value / 1e6:,.0f} M"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def text_of(value: object) -> str:
    """A parameter's value.

    >>> text_of(5_000_000), text_of("a"), text_of(None)
    ('5,000,000', 'a', '-')
    """
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def markdown(table: ResultTable) -> str:
    """A table for a page; numbers are aligned to the right."""
    lines = [table.header, tuple("---" if at < table.names else "---:" for at in range(len(table.header))), *table.rows]
    return "\n".join("| " + " | ".join(each.replace("|", "\\|") for each in line) + " |" for line in lines)


def _baselines(summary: ExperimentSummary, metric: str) -> dict[object, float]:
    """By query, the metric of the first point that has it."""
    found: dict[object, float] = {}
    for point in summary.points:
        sample = point.sample(metric)
        if sample is not None:
            found.setdefault(_query(point), sample.median)
    return found


def _query(point: PointSummary) -> object:
    """The query of a point, if its experiment has several: their numbers say nothing of each other."""
    return point.parameters.get("query_id")


def _ratio(sample: Sample | None, baseline: float) -> str:
    return f"{sample.median / baseline:.3g}" if sample and baseline else ""


def _rsd(sample: Sample | None) -> str:
    return "" if sample is None or sample.rsd is None else f"{sample.rsd:.2g}"


def _number_of_trials(point: PointSummary) -> str:
    if point.verdict.text == UNSUPPORTED:
        return ""
    done = point.trials - len(point.failures)
    return str(done) if done == point.trials else f"{done} of {point.trials}"
