"""Where measurements are kept.

Every run writes all it has measured to `results/<name>/<mode>-<time>.json`, which git does not see. With `--keep`
it also replaces `results/<name>.json`, from which `report.py` fills docs/benchmarks.md.
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def add_options(parser: argparse.ArgumentParser, quick: str) -> None:
    """The options that every benchmark has."""
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--keep", action="store_true", help="let docs/benchmarks.md be filled from this run")


def written(name: str, measured: dict[str, Any], machine: dict[str, Any], options: argparse.Namespace) -> Path:
    """Write a run's measurements; returns where to."""
    now = datetime.now(UTC)
    document = {"benchmark": name, "measured_at": now.strftime("%Y-%m-%d"), "machine": machine, **measured}
    text = json.dumps(document, indent=1) + "\n"
    mode = "quick" if options.quick else "full"
    path = RESULTS / name / f"{mode}-{now:%Y%m%dT%H%M%SZ}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if options.keep:
        (RESULTS / f"{name}.json").write_text(text)
    return path


def kept(name: str) -> dict[str, Any] | None:
    """The measurements that were last kept, if there are any."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
