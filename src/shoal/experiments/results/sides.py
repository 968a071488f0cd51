"""The sides of a comparison: a directory of results, a file of kept results, a version or a commit with results."""

import subprocess
from pathlib import Path

from shoal.errors import ConfigError, did_you_mean
from shoal.experiments.machine import version_at
from shoal.experiments.results.comparison import newest_summaries
from shoal.experiments.results.kept import read_kept
from shoal.experiments.results.point_summary import ExperimentSummary
from shoal.experiments.results.result_store import ResultStore, TrialRecord
from shoal.storage.directory import Directory


def summaries_of(side: str, results: str) -> list[ExperimentSummary]:
    """What was measured on a side; versions and commits are looked up in the directory `results`.

    1. A directory: the newest version of every experiment below it, or else all kept results below it.
    2. A file: kept results.
    3. A version as results name it, or the beginning of one.
    4. Anything that git knows as a commit: the version of the package at that commit.
    """
    path = Path(side)
    if path.is_dir():
        if found := newest_summaries(ResultStore(Directory(side)).records()):
            return found
        if kept := sorted(path.glob("**/*.json")):
            return [read_kept(each).summary for each in kept]
        raise ConfigError(f"directory {side} must have results of experiments; it has none")
    if path.is_file():
        return [read_kept(path).summary]
    records = list(ResultStore(Directory(results)).records()) if Path(results).is_dir() else []
    return newest_summaries(records, _version(side, results, records))


def _version(side: str, results: str, records: list[TrialRecord]) -> str:
    newest = sorted(records, key=lambda record: record.began_at, reverse=True)
    known = list(dict.fromkeys(record.version for record in newest))
    begin_so = [version for version in known if version.startswith(side)]
    if side in known or len(begin_so) == 1:
        return side if side in known else begin_so[0]
    try:
        version = version_at(side)
    except (OSError, subprocess.CalledProcessError):
        version = ""
    if version in known:
        return version
    there = f"{results} has {', '.join(known)}" if known else f"{results} has no results"
    if version:
        raise ConfigError(f"commit {side!r}, whose version is {version}, must have results; {there}")
    raise ConfigError(
        f"a side of a comparison must be a directory of results, a file of kept results, a version or a commit; "
        f"got {side!r}; {there}{did_you_mean(side, known)}"
    )
