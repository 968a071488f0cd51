"""`shoal run`: start a target, print its progress and its summary."""

import json
import random
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click
import pyarrow as pa

from shoal.cli.progress import Progress
from shoal.cli.report import address_of, print_summary
from shoal.cli.target import Expected, Target, source_from_uri, target
from shoal.connectors.sinks import ConsoleSink, MemorySink, ParquetSink, Sink, sink_from_uri
from shoal.connectors.sources.rate import rate_of
from shoal.control.settings import ControlSettings
from shoal.errors import ConfigError, reason_of
from shoal.model.control.messages import EpochCommitted, Rebind, Repartition
from shoal.model.control.shedding import Shedding
from shoal.policies.binding.static import shuffled
from shoal.runtimes.protocol import RuntimeKind
from shoal.runtimes.registry import runtime_kind, runtimes_that
from shoal.session.digest import deviation, differences, result_digest
from shoal.session.partitions import changed, random_changes
from shoal.session.run import Run, start
from shoal.session.summary import Summary
from shoal.session.timer import calling_after
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.workload import Amount

DONE, WRONG, PARKED, INTERRUPTED = 0, 1, 3, 130
METRICS_EVERY = 20
"""Epochs between two lines of metrics: about a second."""


@dataclass(frozen=True)
class RunOptions:
    """The options of `shoal run`."""

    target: str
    on: str
    policy: str | None
    control: ControlSettings
    journal: str | None
    mechanism: str | None
    scheduling: str | None
    mode: str | None
    topology: str | None
    workers: int | None
    events: int | None
    seconds: float | None
    drain: bool
    rate: str | None
    epoch_rows: int | None
    source: str | None
    functions: str | None
    allow_pickle: bool
    sink: str | None
    overwrite: bool
    append: bool
    checkpoint: str | None
    seed: int
    settings: Mapping[str, str]
    conf: Mapping[str, str]
    metrics: str | None
    shuffle_bindings: bool
    shuffle_partitions: bool
    fail_on_dead_letters: bool
    on_query_error: str
    shed: Shedding | None
    check: bool
    as_json: bool


def run_target(options: RunOptions) -> int:
    """Run and report; returns the exit code."""
    chosen = _target(options)
    sink = _sink(options, chosen)
    kind = runtime_kind(options.on)
    if options.drain and options.seconds is None:
        raise ConfigError("--drain says how to end after --seconds; add --seconds")
    if options.check:
        _reject_impossible_check(options, kind, chosen, sink)
    conf = _conf(options, kind)
    counts_only = kind.counts_only(conf)
    if options.check and counts_only:
        raise ConfigError("--check needs results, and mode=statistical only counts them; omit --check")
    if options.metrics:
        _append(options.metrics, "")
    interrupted = threading.Event()
    with Progress(quiet=options.as_json) as progress:
        progress.say(kind.capabilities.starting)
        run = start(
            chosen.job,
            on=options.on,
            workers=options.workers,
            policy=options.policy,
            checkpoint=options.checkpoint,
            sink=sink,
            conf=conf,
            control=options.control,
            journal=options.journal,
            mechanism=options.mechanism,
            must_bind=options.shuffle_bindings or options.shuffle_partitions,
            on_query_error=options.on_query_error,
            say=progress.say,
            allow_pickle=options.allow_pickle,
            topology=options.topology,
            seed=options.seed,
            shed=options.shed,
        )
        _stop_on_interrupt(run, interrupted)
        progress.say(
            f"running {_number(len(chosen.job.graph.queries), 'query', 'queries')}, "
            f"{_number(len(chosen.job.graph.operators), 'operator', 'operators')}"
        )
        timed_out = threading.Event()
        real_s = None if kind.capabilities.simulates_time else options.seconds
        with calling_after(real_s, _end(run, options, timed_out)):
            run.wait(lambda run, event: _watch(run, event, options, progress))
        if options.metrics:
            _append_metrics(run, options.metrics)
        _interrupt_at_once()
        if interrupted.is_set():
            return _interrupted(run, options)
        if not run.tally.epochs and not timed_out.is_set():
            progress.say(f"the run kept in {run.checkpoint} had already ended; there was nothing to do")
        summary, wrong = _summary(run, options, sink, chosen.expected, progress, counts_only=counts_only)
    print_summary(summary, wrong, as_json=options.as_json)
    if options.fail_on_dead_letters and run.tally.dead_letters:
        letters = _number(run.tally.dead_letters, "dead letter", "dead letters")
        click.echo(f"shoal: there must be no dead letters with --fail-on-dead-letters; got {letters}", err=True)
        return WRONG
    if summary.oracle == "different":
        return WRONG
    return PARKED if summary.parked else DONE


def _conf(options: RunOptions, kind: RuntimeKind) -> dict[str, str]:
    """Settings of the runtime, including those with their own options; options of other runtimes are rejected."""
    own = {"mode": options.mode, "scheduling": options.scheduling, **_runtime_settings(options, kind)}
    given = {name: value for name, value in own.items() if value is not None}
    if unknown := [name for name in given if name not in (*kind.capabilities.options, *kind.settings)]:
        raise ConfigError(f"--{unknown[0]} is for --on {runtimes_that(lambda can: unknown[0] in can.options)}")
    if options.metrics and not kind.capabilities.operator_metrics:
        raise ConfigError(f"--metrics is for --on {runtimes_that(lambda can: can.operator_metrics)}")
    return {**options.conf, **given}


def _runtime_settings(options: RunOptions, kind: RuntimeKind) -> dict[str, str]:
    """Those of `--set` that are settings of the runtime, and none of the workload."""
    of_workload = WORKLOADS[options.target].settings if options.target in WORKLOADS else {}
    return {
        name: value for name, value in options.settings.items() if name in kind.settings and name not in of_workload
    }


def _number(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _reject_impossible_check(options: RunOptions, kind: RuntimeKind, chosen: Target, sink: Sink) -> None:
    """The oracle covers all events since the checkpoint began, so all results must be readable."""
    if chosen.expected is None:
        raise ConfigError(f"{options.target} has no oracle; omit --check")
    if options.shed is not None:
        raise ConfigError("--check needs the results of all input; omit --shed")
    if options.append:
        raise ConfigError("--check needs the results of this run alone; omit --append")
    if options.seconds is not None and options.checkpoint is not None and not options.drain:
        raise ConfigError("--check needs every window closed; add --drain to --seconds with a checkpoint")
    if isinstance(sink, ConsoleSink):
        raise ConfigError("--check needs results that can be read back; got --sink console:")
    kept = None if options.checkpoint is None or kind.kept is None else kind.kept(options.checkpoint)
    if kept is not None and kept.last_epoch() is not None and isinstance(sink, MemorySink):
        raise ConfigError(
            f"checkpoint {options.checkpoint} was begun by another run, whose results are gone; "
            "use --sink parquet:DIR from the first run on, or omit --check"
        )


def _target(options: RunOptions) -> Target:
    events = options.events
    if options.source or options.target not in WORKLOADS:
        _reject_limits(options)
    if events is None and options.seconds is None and options.target in WORKLOADS:
        events = WORKLOADS[options.target].events
    usual = WORKLOADS[options.target].rows_per_epoch if options.target in WORKLOADS else Amount.rows_per_epoch
    epoch_rows = options.epoch_rows or usual
    source = source_from_uri(options.source, epoch_rows) if options.source else None
    rate = None if options.rate is None else rate_of(options.rate)
    amount = Amount(events, rate, epoch_rows)
    allow_pickle = options.allow_pickle
    own = _runtime_settings(options, runtime_kind(options.on))
    settings = {name: value for name, value in options.settings.items() if name not in own}
    return target(options.target, options.seed, amount, settings, source, options.functions, allow_pickle=allow_pickle)


def _reject_limits(options: RunOptions) -> None:
    for name, value in (("--events", options.events), ("--rate", options.rate)):
        if value is not None:
            raise ConfigError(f"{name} is for generated events; {options.source or options.target} has its own")


def _sink(options: RunOptions, chosen: Target) -> Sink:
    sink = sink_from_uri(options.sink) if options.sink else chosen.sink or MemorySink()
    if options.as_json and isinstance(sink, ConsoleSink):
        raise ConfigError("--json and --sink console: both write to stdout; omit one of them")
    if options.overwrite and options.append:
        raise ConfigError("--overwrite and --append exclude each other; omit one of them")
    if not (options.overwrite or options.append):
        return sink
    if not isinstance(sink, ParquetSink):
        raise ConfigError(f"--{'overwrite' if options.overwrite else 'append'} is for --sink parquet:DIR")
    return replace(sink, existing="overwrite" if options.overwrite else "append")


def _stop_on_interrupt(run: Run, interrupted: threading.Event) -> None:
    """Let Ctrl-C end the run after the running epoch; a second one ends it immediately."""

    def stop(*_: object) -> None:
        _interrupt_at_once()
        interrupted.set()
        run.stop()

    signal.signal(signal.SIGINT, stop)


def _interrupt_at_once() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(run: Run, options: RunOptions, timed_out: threading.Event) -> Callable[[], None]:
    """Ends the run after its time: a run with a checkpoint can be resumed then, any other one closes its windows."""

    def stop() -> None:
        timed_out.set()
        if not options.as_json:
            again = f"run it again with --checkpoint {run.checkpoint} to go on"
            click.echo(f"stopping after {options.seconds:g} s; {again}", err=True)
        run.stop()

    return run.drain if options.checkpoint is None or options.drain else stop


def _watch(run: Run, event: EpochCommitted, options: RunOptions, progress: Progress) -> None:
    progress.epoch(run, event)
    if run.capabilities.simulates_time and options.seconds is not None and event.at_s >= options.seconds:
        run.drain()
    if options.metrics and event.epoch % METRICS_EVERY == 0:
        _append_metrics(run, options.metrics)
    seed = options.seed * 1_000_003 + event.epoch
    partitioning = run.partitioning
    if options.shuffle_partitions and (changes := random_changes(run.graph, partitioning, random.Random(seed))):
        run.attempt(Repartition(changes))
        partitioning = changed(partitioning, changes, run.graph)
    if options.shuffle_bindings:
        binding = shuffled(run.graph, run.workers, seed, partitioning)
        run.attempt(Rebind(binding, id=f"shuffle {event.epoch}"))


def _append_metrics(run: Run, path: str) -> None:
    """One JSON object per line: the time, and the metrics of every operator."""
    _append(path, json.dumps({"time": round(run.runtime.now_s(), 3), "operators": run.metrics()}) + "\n")


def _append(path: str, text: str) -> None:
    """Append to a file; also called with nothing, to find out before a run whether it can be written."""
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {reason_of(error)}") from error


def _interrupted(run: Run, options: RunOptions) -> int:
    again = f"run it again with --checkpoint {run.checkpoint} to resume"
    kept = again if options.checkpoint else run.capabilities.interrupted
    epochs = _number(run.tally.epochs, "epoch", "epochs")
    click.echo(f"interrupted after {epochs}, all committed; {kept}", err=True)
    return INTERRUPTED


def _summary(
    run: Run, options: RunOptions, sink: Sink, expected: Expected | None, progress: Progress, *, counts_only: bool
) -> tuple[Summary, list[str]]:
    results = _results(sink, run)
    digest = "" if isinstance(sink, ConsoleSink) or counts_only else result_digest(results)
    oracle, wrong, deviates = "not checked", [], None
    if options.check and expected is not None:
        progress.say("computing the expected results in one batch, to compare ...")
        wanted = expected(run.consumed)
        wrong = differences(results, wanted)
        oracle, deviates = ("different", deviation(results, wanted)) if wrong else ("equal", 0.0)
    summary = Summary(
        workload=options.target,
        runtime=options.on,
        policy="random" if options.shuffle_bindings else run.policy,
        mechanism=run.mechanism,
        workers=run.workers,
        topology=run.topology,
        seed=options.seed,
        start_up_s=run.start_up_s,
        tally=run.tally,
        result_digest=digest,
        oracle=oracle,
        sink="" if counts_only else address_of(sink),
        parked=run.parked,
        simulated_time=run.capabilities.simulates_time,
        machine=run.runtime.machine_report(),
        migrations=run.migrations,
        deviation=deviates,
        shed=run.shed_report().data() if run.load_shedding is not None or run.tally.lacks_input else None,
    )
    return summary, wrong


def _results(sink: Sink, run: Run) -> dict[str, pa.Table]:
    """All result tables that the sink can read back."""
    if isinstance(sink, ConsoleSink):
        return {}
    if not isinstance(sink, MemorySink | ParquetSink):
        raise ConfigError("results of this sink cannot be read back for a digest")
    tables = {query.table for query in run.job.graph.queries.values()}
    return {table: sink.table(table) for table in sorted(tables & set(sink.names()))}
