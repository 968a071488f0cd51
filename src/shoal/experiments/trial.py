"""One trial, in the process that it has for itself: an order as JSON comes in, a file with the outcome goes out.

    python -m shoal.experiments.trial ORDER OUTCOME_FILE

A trial that raises has a failure as its outcome; its traceback goes to stderr.
"""

import importlib.util
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from shoal.errors import ConfigError, ShoalError
from shoal.experiments.experiment import MeasureFunction, Parameters, Subject, Trial, TrialOutcome, WorkloadRun
from shoal.experiments.processes import end_with_parent


@dataclass(frozen=True)
class TrialOrder:
    """A trial and what it runs: a workload, a function of a Python file, or else the flow of its experiment."""

    trial: Trial
    workload: str = ""
    python: str = ""
    function: str = ""


def order_of(trial: Trial, subject: Subject) -> TrialOrder:
    """What the process of a trial is told; the file of a measure function is beside that of the experiment."""
    if isinstance(subject, WorkloadRun):
        return TrialOrder(trial, workload=subject.workload)
    if isinstance(subject, MeasureFunction):
        return TrialOrder(trial, python=str(measure_path(trial.file, subject)), function=subject.function)
    return TrialOrder(trial)


def measure_path(file: str, subject: MeasureFunction) -> Path:
    """The Python file of a measure function."""
    return Path(file).absolute().parent / subject.file


def outcome_of(order: TrialOrder) -> TrialOutcome:
    """Run a trial here and now; whatever it raises is the reason of its failure."""
    try:
        return checked(_run(order))
    except ShoalError as error:
        traceback.print_exc()
        return TrialOutcome(failure=str(error))
    except Exception as error:  # noqa: BLE001  a measure function may raise anything, and other trials go on
        traceback.print_exc()
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}, line {frame.lineno}"
        return TrialOutcome(failure=f"{type(error).__name__} in {where}: {error}")


def checked(outcome: TrialOutcome) -> TrialOutcome:
    """The outcome, if all its metrics are finite numbers."""
    metrics: Mapping[str, object] = outcome.metrics
    for name, value in metrics.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ConfigError(f"metric {name!r} of a trial must be a finite number; got {value!r}")
    return outcome


def _run(order: TrialOrder) -> TrialOutcome:
    trial = order.trial
    if order.workload:
        from shoal.experiments.workload_trial import run_workload

        return run_workload(order.workload, trial.parameters, trial.repetition)
    if order.python:
        return measured(order, trial.parameters)
    return _flow(trial)


def measured(order: TrialOrder, parameters: Parameters) -> TrialOutcome:
    """Call a measure function; a mapping of numbers that it returns, nested or not, becomes the metrics."""
    found = function_of(Path(order.python), order.function)(**parameters)
    if isinstance(found, TrialOutcome):
        return found
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"measure function {order.function} must return a TrialOutcome or a mapping of numbers; "
            f"got {type(found).__name__}"
        )
    return TrialOutcome(metrics=dict(_flat(found)))


def _flat(numbers: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in numbers.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def function_of(path: Path, name: str) -> Callable[..., Any]:
    """A function of a Python file, which may import the modules beside it, and those of the package that it is in.

    So may processes that are started from now on, such as Spark's workers, to which classes of these modules are sent.
    """
    if not path.is_file():
        raise ConfigError(f"measure function {name} must be in a Python file; there is none at {path}")
    found = [str(path.parent.absolute()), str(_root_of(path).absolute())]
    sys.path[:0] = found
    known = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*found, known] if known else found)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"measure function {name} must be in a Python file; got {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigError(f"{path.name} must have a function {name}, which the experiment measures; it has none")
    return function


def _root_of(path: Path) -> Path:
    """The directory from which the package of a file is imported; its own if it is in none."""
    return next(each for each in path.parents if not (each / "__init__.py").exists())


def _flow(trial: Trial) -> TrialOutcome:
    """Load the file again, in the process of the trial, and run the flow of its experiment."""
    from shoal.experiments.coordination.flow_trial import run_flow
    from shoal.experiments.language.experiment_file import load_experiments

    file = load_experiments(trial.file, small=trial.small)
    experiment = next((each for each in file.experiments if each.name == trial.experiment), None)
    if experiment is None:
        raise ConfigError(f"{trial.file} no longer has an experiment {trial.experiment!r}")
    return run_flow(file, experiment, trial.parameters)


def main() -> None:
    """Run the trial of the order and write its outcome."""
    end_with_parent()
    order, path = msgspec.json.decode(sys.argv[1], type=TrialOrder), Path(sys.argv[2])
    outcome = outcome_of(order)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_bytes(msgspec.json.encode(replace(outcome)))
    unfinished.rename(path)
    sys.exit(1 if outcome.failure else 0)


if __name__ == "__main__":
    main()
