"""`shoal experiment report`: a page of what was measured, results to keep, and documentation filled from them."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from shoal.cli.commands.experiments.experiment_results import FAILED, RESULTS
from shoal.errors import ConfigError
from shoal.experiments.experiment import Experiment, ExperimentFile
from shoal.experiments.language.experiment_file import load_experiments
from shoal.experiments.results.answers import WRONG
from shoal.experiments.results.comparison import newest_of
from shoal.experiments.results.documentation import filled
from shoal.experiments.results.html_page import page
from shoal.experiments.results.kept import KEPT, keep
from shoal.experiments.results.point_summary import ExperimentSummary, plain, summary_of
from shoal.experiments.results.result_store import ResultStore, TrialRecord, experiment_path, plain_name
from shoal.experiments.runner import only_named
from shoal.storage.directory import Directory


@dataclass(frozen=True)
class ReportOptions:
    """What is reported, and where."""

    file: str | None
    only: Sequence[str]
    small: bool
    version: str
    output: str
    path: str | None
    keeps: bool
    as_json: bool


@click.command()
@click.argument("file", required=False)
@click.option("--only", multiple=True, metavar="EXPERIMENT", help="Only this experiment; may be repeated.")
@click.option("--small", is_flag=True, help="Results of the small variant.")
@click.option("--version", metavar="VERSION", default="", help="Results of this version  [default: the newest]")
@click.option("-o", "--output", metavar="DIR", default=RESULTS, show_default=True, help="Where results are kept.")
@click.option("--page", "path", metavar="HTML", help="Where the page goes  [default: DIR/<file>/report.html]")
@click.option("--keep", "keeps", is_flag=True, help="Also keep the results beside FILE, for documentation.")
@click.option("--docs", multiple=True, metavar="PAGE", help="Fill this page from kept results; no FILE is read.")
@click.option("--check", is_flag=True, help="With --docs: change nothing, exit code 1 if a page is not as it would be.")
@click.option("--kept", default=KEPT, show_default=True, metavar="DIR", help="Where kept results are, for --docs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on stdout.")
def report(docs: Sequence[str], check: bool, kept: str, **given: Any) -> None:
    """Write one page with tables and figures of what was measured of FILE."""
    options = ReportOptions(**given)
    if (options.file is None) == (not docs):
        raise ConfigError(f"report takes a FILE, or --docs and a page; got {'both' if options.file else 'none'}")
    if options.file is None:
        _fill(docs, Path(kept), check=check, as_json=options.as_json)
    else:
        _report(options, options.file)


def _report(options: ReportOptions, file: str) -> None:
    if options.keeps and options.small:
        raise ConfigError("results of the small variant say little and are not kept; leave --small or --keep out")
    declared = load_experiments(file, small=options.small)
    declared = replace(declared, experiments=only_named(declared, options.only))
    summaries, missing = _measured(declared, options.output, options.version, small=options.small)
    target = Path(options.path or Path(options.output) / _directory(file, small=options.small) / "report.html")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(declared.name, summaries, missing), encoding="utf-8")
    if options.keeps:
        _keep(declared, summaries)
    if options.as_json:
        found = [plain(each) for each in summaries]
        click.echo(json.dumps({"file": file, "page": str(target), "missing": missing, "experiments": found}))
    else:
        for name, text in missing.items():
            click.echo(f"{name}: {text}", err=True)
        click.echo(str(target))


def _directory(file: str, *, small: bool) -> str:
    return plain_name(Path(file).stem) + ("+small" if small else "")


def _measured(
    file: ExperimentFile, output: str, version: str, *, small: bool
) -> tuple[list[ExperimentSummary], dict[str, str]]:
    """The experiments of a file that have results, and of which experiments some are missing."""
    store = ResultStore(Directory(output))
    summaries, missing = [], {}
    for experiment in file.experiments:
        trials = list(experiment.trials(file.path, small=small))
        below = experiment_path(trials[0])
        found = (
            _declared_only(experiment, newest_of(store.records(below), version)) if Path(output, below).is_dir() else []
        )
        if not found:
            missing[experiment.name] = "has not been run"
            continue
        if len(found) < len(trials):
            missing[experiment.name] = f"{len(found)} of {len(trials)} trials have been run"
        summaries.append(summary_of(experiment, found))
    if not summaries:
        which = f" of version {version}" if version else ""
        raise ConfigError(f"{output} has no results{which} of {file.path}; shoal experiment run makes them")
    return summaries, missing


def _declared_only(experiment: Experiment, records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The records of points that the file still has, in the order of the file."""
    order = {repr(sorted(point.items())): at for at, point in enumerate(experiment.points)}
    known = [each for each in records if repr(sorted(each.trial.parameters.items())) in order]
    return sorted(known, key=lambda each: (each.trial.repetition, order[repr(sorted(each.trial.parameters.items()))]))


def _keep(file: ExperimentFile, summaries: Sequence[ExperimentSummary]) -> None:
    """Keep all experiments, or none if a result is wrong; what has not been run is told in the documentation."""
    wrong = [summary.name for summary in summaries for point in summary.points if point.verdict.text == WRONG]
    if wrong:
        raise ConfigError(f"only right results are kept; results of {', '.join(dict.fromkeys(wrong))} are wrong")
    declared = {each.name: each for each in file.experiments}
    for summary in summaries:
        click.echo(f"kept in {keep(file.path, declared[summary.name], summary)}", err=True)


def _fill(docs: Sequence[str], kept: Path, *, check: bool, as_json: bool) -> None:
    pages = [filled(Path(each), kept) for each in docs]
    differ = {str(page.path): page.differences for page in pages if page.differences}
    if not check:
        for page in pages:
            page.write()
    if as_json:
        places = {str(page.path): page.places for page in pages}
        click.echo(json.dumps({"places": places, "differences": differ}))
    else:
        for page in pages:
            click.echo(f"{page.path}: {page.places} places, {_told(differ.get(str(page.path), []), check=check)}")
    if check and differ:
        sys.exit(FAILED)


def _told(differences: Sequence[str], *, check: bool) -> str:
    if not differences:
        return "nothing to change"
    return f"{len(differences)} to change: {'; '.join(differences)}" if check else "filled"
