"""The experiments of the project: every file loads, and each of its points can be measured."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from shoal.experiments.experiment import Experiment, MeasureFunction, TrialOutcome
from shoal.experiments.language.experiment_file import load_experiments
from shoal.experiments.runner import run_trial

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FILES = sorted(path.name for path in EXPERIMENTS.glob("*.yaml"))


def measured(file: str, *, small: bool) -> list[Experiment]:
    """The experiments of a file that call a function."""
    found = load_experiments(str(EXPERIMENTS / file), small=small).experiments
    return [each for each in found if isinstance(each.subject, MeasureFunction)]


@pytest.mark.parametrize("file", FILES)
def test_functions_take_the_parameters_of_all_points(file: str) -> None:
    for small in (False, True):
        for experiment in measured(file, small=small):
            subject = experiment.subject
            assert isinstance(subject, MeasureFunction)
            module = import_module(subject.file.removesuffix(".py").replace("/", "."))
            signature = inspect.signature(getattr(module, subject.function))
            for point in experiment.points:
                signature.bind(**point)


@pytest.mark.parametrize("file", FILES)
def test_the_small_variant_has_few_trials(file: str) -> None:
    everything = load_experiments(str(EXPERIMENTS / file), small=True).experiments
    assert sum(len(each.points) * each.repeat for each in everything) <= 45


QUICK = [
    ("control.yaml", "proposals"),
    ("kernels.yaml", "pattern-delays"),
    ("local.yaml", "ysb"),
    ("migration.yaml", "join"),
    ("spatial.yaml", "changes"),
    ("studies.yaml", "001-fig-3"),
]
"""An experiment of each kind whose small variant takes a few seconds."""


def run_small(file: str, name: str) -> list[TrialOutcome]:
    """The outcomes of the first repetition of all points, each in a process of its own."""
    path = str(EXPERIMENTS / file)
    experiment = next(each for each in load_experiments(path, small=True).experiments if each.name == name)
    trials = [trial for trial in experiment.trials(path, small=True) if not trial.repetition]
    found = [run_trial(trial, experiment)[0] for trial in trials]
    if experiment.answers == "oracle":
        assert {each.oracle for each in found} == {"equal"}, [each.failure for each in found]
    return found


@pytest.mark.parametrize(("file", "name"), QUICK)
def test_a_small_variant_gives_numbers(file: str, name: str) -> None:
    for outcome in run_small(file, name):
        assert not outcome.failure
        assert outcome.metrics


EVERY = [
    (file, each.name)
    for file in FILES
    for each in load_experiments(str(EXPERIMENTS / file), small=True).experiments
    if (file, each.name) not in QUICK
]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("file", "name"), EVERY)
def test_every_other_small_variant_gives_numbers(file: str, name: str) -> None:
    for outcome in run_small(file, name):
        assert not outcome.failure
        assert outcome.metrics
