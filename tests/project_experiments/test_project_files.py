"""The experiments of the project: every file loads, and each of its points can be measured."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from shoal.experiments.experiment import Experiment, MeasureFunction
from shoal.experiments.language.experiment_file import load_experiments

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
    assert sum(len(each.points) * each.repeat for each in everything) <= 40
