"""The report of a finished run: a table for people or one JSON object, and what must not be overlooked on stderr."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from shoal.compiler.query_failure import failure_text
from shoal.connectors.sinks import ConsoleSink, MemorySink, ParquetSink, Sink
from shoal.control.names import readable
from shoal.control.story import loss_text
from shoal.model.query.graph import shortened
from shoal.session.summary import Summary

LOUD_SHARE = 0.01
"""Share of refused rows above which a line on stderr says so."""
KINDS_SHOWN = 8
TIMES_SHOWN, GROUPS_SHOWN = 6, 12
"""Times at which shedding began or ended, and kinds of queries that it concerns."""
HOSTS_SHOWN, LINKS_SHOWN = 3, 2
"""Hosts and links of a simulated machine: the busiest, and those that carried most."""
_LONGEST_ROW = 160


def print_summary(summary: Summary, wrong: Sequence[str], *, as_json: bool) -> None:
    """Print the summary on stdout, and a warning on stderr if many rows were refused."""
    data = summary.data()
    if as_json:
        click.echo(json.dumps(data))
    else:
        console = Console(highlight=False)
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in _lines(data):
            table.add_row(name, value)
        console.print(table)
        for loss in summary.lost:
            console.print(f"lost state: {loss_text(loss)}", markup=False, soft_wrap=True)
        for line in _shed_lines(data.get("shed")):
            console.print(line, markup=False, soft_wrap=True)
        for line in _refused_lines(data["refused_rows"]):
            console.print(line, markup=False, soft_wrap=True)
        for text in wrong:
            console.print(f"different: {text}", markup=False)
        for each in summary.parked:
            text = failure_text(each.queries, each.reason, each.row)
            console.print(f"parked: {text}", markup=False, soft_wrap=True)
    if summary.tally.refused_share > LOUD_SHARE:
        click.echo(_warning(summary), err=True)
    if summary.lost:
        names = ", ".join(sorted({loss.query for loss in summary.lost}))
        click.echo(
            f"WARNING: state was lost while it moved; results of these queries are without it: {names}", err=True
        )


def address_of(sink: Sink) -> str:
    """Where results went, as `--sink` takes it."""
    if isinstance(sink, ParquetSink):
        return f"parquet:{sink.path}"
    return {MemorySink: "memory:", ConsoleSink: "console:"}.get(type(sink), type(sink).__name__)


def _warning(summary: Summary) -> str:
    """The line about refused rows that nobody should overlook."""
    tally = summary.tally
    most = max(tally.refused_rows.values(), key=lambda kind: kind.rows, default=None)
    example = "" if most is None else f"; for example, in stream {most.stream}: {most.detail}"
    return (
        f"WARNING: {tally.dead_letters:,} dead letters for {tally.events:,} rows read ({tally.refused_share:.1%}); "
        f"the results are without them{example}"
    )


def _refused_lines(kinds: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Dead letters by stream, reason and column, each kind with an example."""
    for kind in kinds[:KINDS_SHOWN]:
        column = f" in column {kind['column']}" if kind["column"] else ""
        row = kind["row"] if len(kind["row"]) <= _LONGEST_ROW else kind["row"][: _LONGEST_ROW - 4] + " ..."
        yield f"dead letters of stream {kind['stream']}: {kind['rows']:,} {kind['reason']}{column}"
        yield f"    for example {kind['place']}: {kind['detail']}" + (f": {row}" if row else "")
    if len(kinds) > KINDS_SHOWN:
        yield f"... and {len(kinds) - KINDS_SHOWN} more kinds, see --json or the table dead_letters"


def _short(value: float) -> str:
    """Three digits, or all of a larger number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _lines(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    latency, simulated, markers = data["latency_ms"], data["simulated_time"], data["marker_latency_ms"]
    return [
        ("events", f"{data['events']:,}"),
        *__machine_lines(data),
        ("events/s", f"{data['events_per_s']:,.0f}{' of simulated time' if simulated else ''}"),
        ("epochs", f"{data['epochs']:,}"),
        ("latency", _latency(latency)),
        *([("of markers", _latency(markers))] if markers is not None else []),
        ("results", f"{data['results']:,} {_where(data['sink'])}"),
        ("dead letters", f"{data['dead_letters']:,}"),
        ("moves", f"{data['moves']:,} instances, {data['state_bytes_moved'] / 1e6:.1f} MB of state"),
        ("peak memory", f"{data['peak_rss_mb']:,.0f} MB{' of this process' if simulated else ''}"),
        ("result digest", data["result_digest"][:16] or "none"),
        ("oracle", data["oracle"]),
        *(_machine_lines(data["machine"]) if "machine" in data else ()),
    ]


def _latency(ms: Mapping[str, float]) -> str:
    return "mean {mean} ms, p50 {p50}, p99 {p99}, max {max}".format(**{k: _short(v) for k, v in ms.items()})


def __machine_lines(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The simulated machine and how long it ran, if the run was simulated."""
    if not data["simulated_time"]:
        return []
    return [("simulated", f"{_short(data['elapsed_s'])} s, {data['topology']}")]


def _where(sink: str) -> str:
    """Where the results are, and how to keep them if they are nowhere."""
    if not sink:
        return "counted; this mode has none to write"
    if sink == "memory:":
        return "in memory, gone with this run; keep them with --sink parquet:DIR, see them with --sink console:"
    return "on the console" if sink == "console:" else f"in {sink.removeprefix('parquet:')}"


def _machine_lines(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and text of every line, at most six."""
    hosts = sorted(machine["hosts"], key=lambda host: -host["busy_share"])[:HOSTS_SHOWN]
    links = sorted(machine["links"], key=lambda link: -link["bytes"])[:LINKS_SHOWN]
    lines = [("machine", _totals(machine))] if machine["number_of_hosts"] > 1 else []
    lines += [(f"host {host['name']}" if lines else "machine", _used(host)) for host in hosts]
    return lines + [("link", f"{link['name']}: {_size(link['bytes'])}") for link in links if link["bytes"]]


def _totals(machine: Mapping[str, Any]) -> str:
    failed = sum(host["failed"] for host in machine["hosts"])
    text = f"{machine['number_of_hosts']:,} hosts, {machine['number_of_links']:,} links"
    text += f", {machine['joules']:,.3g} J" if machine["joules"] else ""
    return text + (f"; {failed:,} failed" if failed else "") + "; most used:"


def _used(host: Mapping[str, Any]) -> str:
    cores = f"{host['cores']} core{'s' * (host['cores'] > 1)}"
    text = f"{cores} busy for {host['busy_share']:.0%} of the time"
    if host["bytes_sent"] or host["bytes_received"]:
        text += f", sent {_size(host['bytes_sent'])}, received {_size(host['bytes_received'])}"
    text += f", {host['joules']:,.3g} J" if host["joules"] else ""
    if host["battery_left_j"] is not None:
        text += f", {host['battery_left_j']:,.3g} J left"
    return text + (", failed" if host["failed"] else "")


def _size(number: float) -> str:
    """Bytes with a unit.

    >>> _size(999), _size(1_540_000)
    ('999 B', '1.5 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:.0f} B"


def _shed_lines(shed: Mapping[str, Any] | None) -> Iterator[str]:
    """The lines about shed input; none if none may be shed."""
    if shed is None:
        return
    if not any(stream["ranges"] for stream in shed["streams"]):
        yield f"shed ({shed['shedding']}): no rows; every result is exact"
        return
    yield f"shed ({shed['shedding']}): {shed['rows']:,} rows, {shed['share']:.1%} of the input; results are not scaled"
    for stream in shed["streams"]:
        yield f"    stream {stream['stream']}: {stream['rows']:,} rows{_shed_more(stream)}"
    for entry in shed["times"][:TIMES_SHOWN]:
        yield f"    {_shed_time(entry)}"
    if len(shed["times"]) > TIMES_SHOWN:
        yield f"    ... and {len(shed['times']) - TIMES_SHOWN} more times, see --json"
    for group in shed["queries"][:GROUPS_SHOWN]:
        yield from _group_lines(group)
    if len(shed["queries"]) > GROUPS_SHOWN:
        yield f"    ... and {len(shed['queries']) - GROUPS_SHOWN} more kinds of queries, see --json"


def _shed_more(stream: Mapping[str, Any]) -> str:
    if "utility_kept" in stream:
        return f"; {stream['utility_kept']:.1%} of the utility was kept"
    if "times_missing" in stream:
        first = f", the first from {stream['missing'][0]}" if stream["missing"] else ""
        return f"; {stream['times_missing']:,} times of {readable(stream['span_s'])} are missing{first}"
    return ""


def _shed_time(entry: Mapping[str, Any]) -> str:
    if entry["began"]:
        return f"began in epoch {entry['epoch']}: {entry['reason']}"
    return f"ended in epoch {entry['epoch']} after {readable(entry['lasted_s'])}: {entry['reason']}"


def _group_lines(group: Mapping[str, Any]) -> Iterator[str]:
    names = shortened(group["queries"], "queries") if len(group["queries"]) > 1 else f"query {group['queries'][0]}"
    if group["exact"]:
        yield f"    {names}: exact"
    elif group["reason"]:
        yield f"    {names}: no bound, {group['reason']}"
    else:
        yield f"    {names}: {'; '.join(_column_texts(group['columns'])) or 'no aggregates in the results'}"


def _column_texts(columns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in columns:
        text = f"{each['column']} = {each['aggregate']}"
        if each["bound"] == "exact":
            yield f"{text} is exact"
        elif each["bound"] == "none":
            yield f"{text} has no bound, {each['reason']}"
        else:
            yield f"{text} {_intervals(each)}"


def _intervals(column: Mapping[str, Any]) -> str:
    if "interval_results" not in column:
        return "has no results that could be read back"
    texts = []
    if column["interval_results"]:
        usual, most = column["half_width_median"], column["half_width_most"]
        texts = [f"{column['interval_results']:,} estimates, 95 % within {usual:.1%} (at most {most:.1%})"]
    others = (("exact", "exact"), ("bounded", "with bounds"), ("unknown", "without an interval"))
    texts += [f"{column[f'{name}_results']:,} {text}" for name, text in others if column[f"{name}_results"]]
    return f"has {', '.join(texts)}"
