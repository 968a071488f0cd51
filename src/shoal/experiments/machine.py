"""The machine and the versions of a measurement, without anything that identifies the host."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

PACKAGES = ("shoal", "pyspark", "duckdb", "pyarrow", "numba", "numpy")


def described() -> dict[str, Any]:
    """Cores, memory, load and versions."""
    return {
        "cores": cores(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "cpu": _cpu(),
        **load_now(),
        **code(),
        "python": platform.python_version(),
        "java": _java(),
        **{package: _version(package) for package in PACKAGES},
    }


def load_now() -> dict[str, float]:
    """How busy the machine is with anything at all."""
    return {"load_1min": round(os.getloadavg()[0], 2)}


def code() -> dict[str, Any]:
    """The version of Shoal that runs: its last commit, and a digest of changes that are in none.

    Results of one version may stand in for each other. Without a repository it is the version of the package.
    """
    package = Path(__file__).parents[1]
    try:
        commit = _git(package, "log", "-1", "--format=%h", "--", ".")
        changes = _git(package, "status", "--porcelain", "--", ".") and _git(package, "diff", "HEAD", "--", ".")
        new = _git(package, "ls-files", "--others", "--exclude-standard", "--", ".").split()
    except (OSError, subprocess.CalledProcessError):
        commit, changes, new = "", "", []
    if not commit:
        return {"version": _version("shoal"), "commit": "", "dirty": False}
    if not changes and not new:
        return {"version": commit, "commit": commit, "dirty": False}
    digest = hashlib.sha256(changes.encode())
    for name in new:
        digest.update((package / name).read_bytes())
    return {"version": f"{commit}+{digest.hexdigest()[:4]}", "commit": commit, "dirty": True}


def version_at(revision: str) -> str:
    """The version of Shoal at a commit, as results name it; an error of git if there is no such commit."""
    package = Path(__file__).parents[1]
    commit = _git(package, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    return _git(package, "log", "-1", "--format=%h", commit, "--", ".")


def _git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


def cpu_by_kind_s() -> dict[str, float]:
    """CPU time of this process and its descendants, also those that ended, by kind of process.

    On a busy machine it is more reliable than wall time.
    """
    found = {"driver": 0.0, "jvm": 0.0, "python workers": 0.0}
    driver = psutil.Process()
    for process in (driver, *driver.children(recursive=True)):
        try:
            kind = "driver" if process == driver else "jvm" if process.name() == "java" else "python workers"
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        found[kind] += times.user + times.system
        # All children of the JVM that have ended were Python workers.
        found["python workers"] += times.children_user + times.children_system
    return found


def cpu_s() -> float:
    """CPU time of this process and its descendants."""
    return sum(cpu_by_kind_s().values())


def sentence(machine: Mapping[str, Any]) -> str:
    """The machine and the versions in one line; what is not known is left out.

    >>> sentence({"cores": 2, "memory_gb": 23.5, "load_1min": 0.5, "version": "1a2b3c4", "python": "3.11.7"})
    '2 cores, 23.5 GB, load 0.5 before the first run; version 1a2b3c4, python 3.11.7'
    """
    cpu = f" ({machine['cpu']})" if machine.get("cpu") else ""
    words = {"cores": "{} cores" + cpu, "memory_gb": "{} GB", "load_1min": "load {} before the first run"}
    known = [text.format(machine[name]) for name, text in words.items() if name in machine]
    versions = [f"{name} {machine[name]}" for name in ("version", "python", "java", *PACKAGES) if machine.get(name)]
    return "; ".join(", ".join(part) for part in (known, versions) if part)


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    command = [f"{home}/bin/java" if home else "java", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "not installed"
    return done.stderr.partition('"')[2].partition('"')[0] or "unknown"
