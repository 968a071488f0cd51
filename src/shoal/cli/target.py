"""Targets: from what the user typed to a job that can run."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from shoal.connectors.files import Files
from shoal.connectors.formats import FORMATS
from shoal.connectors.source import Source
from shoal.errors import ConfigError
from shoal.session.job import Job
from shoal.workloads.catalog import WORKLOADS, workload
from shoal.workloads.workload import Amount

Expected = Callable[[int], Mapping[str, pa.Table]]


@dataclass(frozen=True)
class Target:
    """A job under the name the user gave, with its oracle if it has one."""

    name: str
    job: Job
    expected: Expected | None


def target(text: str, seed: int, amount: Amount, settings: Mapping[str, str], source: Source | None) -> Target:
    """A workload by name, or the `job` of a Python file (`file.py:job`)."""
    if text in WORKLOADS:
        ready = workload(text).ready(seed, amount, settings, source)
        return Target(text, ready.job, ready.expected)
    path, colon, attribute = text.rpartition(":")
    if colon and path.endswith(".py"):
        if settings:
            raise ConfigError(f"--set is for workloads; {text} takes no settings")
        return Target(text, _from_file(Path(path), attribute, source), None)
    raise ConfigError(f"target must be a workload ({', '.join(WORKLOADS)}) or FILE.py:NAME; got {text!r}")


def _from_file(path: Path, attribute: str, source: Source | None) -> Job:
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"cannot load {path} as Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, attribute, None)
    job = found() if callable(found) else found
    if not isinstance(job, Job):
        raise ConfigError(f"{path}:{attribute} must be a Job or a function that returns one; got {type(job).__name__}")
    if source is None:
        return job
    if len(job.sources) != 1:
        raise ConfigError(f"--source replaces the source of a job with one stream; {path} has {len(job.sources)}")
    return Job(job.name, job.graph, dict.fromkeys(job.sources, source))


def source_from_uri(uri: str, rows_per_epoch: int | None) -> Source:
    """A source by its address: `parquet:DIR`, `arrow:DIR` or `csv:DIR`, `?follow` to wait for new files."""
    kind, _, rest = uri.partition(":")
    directory, _, option = rest.partition("?")
    if kind not in FORMATS or not directory or option not in ("", "follow"):
        raise ConfigError(
            f"source must be {', '.join(f'{name}:DIR' for name in FORMATS)}, with ?follow if you like; got {uri!r}"
        )
    if not Path(directory).is_dir():
        raise ConfigError(f"source directory {directory} does not exist")
    return Files(directory, format=kind, rows_per_epoch=rows_per_epoch, follow=bool(option))  # type: ignore[arg-type]
