"""`shoal experiment report`: a page of what was measured, results to keep, and documentation filled from them."""

import json
from collections.abc import Sequence
from pathlib import Path

import click

from shoal.cli.commands.experiments.experiment_results import RESULTS
from shoal.errors import ConfigError
from shoal.experiments.experiment import Experiment, ExperimentFile
from shoal.experiments.language.experiment_file import load_experiments
from shoal.experiments.results.comparison import newest_of
from shoal.experiments.results.html_page import page
from shoal.experiments.results.kept import KEPT, fill, keep
from shoal.experiments.results.point_summary import ExperimentSummary, plain, summary_of
from shoal.experiments.results.result_store import ResultStore, TrialRecord, experiment_path, plain_name
from shoal.storage.directory import Directory


@click.command()
@click.argument("file", required=False)
@click.option("--small", is_flag=True, help="Results of the small variant.")
@click.option("--version", metavar="VERSION", default="", help="Results of this version  [default: the newest]")
@click.option("-o", "--output", metavar="DIR", default=RESULTS, show_default=True, help="Where results are kept.")
@click.option("--page", "path", metavar="HTML", help="Where the page goes  [default: DIR/<file>/report.html]")
@click.option("--keep", "keeps", is_flag=True, help="Also keep the results beside FILE, for documentation.")
@click.option("--docs", multiple=True, metavar="PAGE", help="Fill this page from kept results; no FILE is read.")
@click.option("--kept", default=KEPT, show_default=True, metavar="DIR", help="Where kept results are, for --docs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on stdout.")
def report(
    file: str | None,
    small: bool,
    version: str,
    output: str,
    path: str | None,
    keeps: bool,
    docs: Sequence[str],
    kept: str,
    as_json: bool,
) -> None:
    """Write one page with tables and figures of what was measured of FILE."""
    if (file is None) == (not docs):
        raise ConfigError(f"report takes a FILE, or --docs and a page; got {'both' if file else 'none'}")
    if file is None:
        filled = {each: fill(Path(each), Path(kept)) for each in docs}
        click.echo(json.dumps({"filled": filled}) if as_json else _filled(filled))
        return
    if keeps and small:
        raise ConfigError("results of the small variant say little and are not kept; leave --small or --keep out")
    declared = load_experiments(file, small=small)
    summaries, missing = _measured(declared, output, version, small=small)
    target = Path(path) if path else Path(output) / _directory(file, small=small) / "report.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(declared.name, summaries, missing), encoding="utf-8")
    if keeps:
        _keep(file, summaries, missing)
    if as_json:
        told = {
            "file": file,
            "page": str(target),
            "missing": missing,
            "experiments": [plain(each) for each in summaries],
        }
        click.echo(json.dumps(told))
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


def _keep(file: str, summaries: Sequence[ExperimentSummary], missing: dict[str, str]) -> None:
    if bad := [summary.name for summary in summaries if not summary.right]:
        raise ConfigError(f"only right results are kept; {', '.join(bad)} of {file} failed or is wrong")
    if partly := [name for name in missing if name in {summary.name for summary in summaries}]:
        raise ConfigError(f"only whole experiments are kept; {partly[0]} of {file}: {missing[partly[0]]}")
    path = keep(file, f"shoal experiment run {file}", summaries)
    click.echo(f"kept in {path}", err=True)


def _filled(filled: dict[str, int]) -> str:
    return "\n".join(f"{page}: {places} places filled" for page, places in filled.items())
