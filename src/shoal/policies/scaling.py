"""Scaling: how many workers a job should have, and the binding after workers were added or removed."""

from dataclasses import dataclass
from math import ceil

from shoal.errors import BindingError, ConfigError
from shoal.model.control.binding import Binding, WorkerId
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.loads import Loads


@dataclass(frozen=True)
class Utilisation:
    """Keeps utilisation, the share of their time that workers are busy, between two bounds.

    Above `high` workers are added, below `low` they are removed; both aim half-way between the bounds.

    >>> scaling = Utilisation(least=1, most=8, low=0.4, high=0.8)
    >>> scaling.wanted(busy=0.95, workers=4), scaling.wanted(busy=0.6, workers=4), scaling.wanted(busy=0.2, workers=4)
    (7, 4, 2)
    """

    least: int
    most: int
    low: float = 0.4
    high: float = 0.85

    def __post_init__(self) -> None:
        """Reject bounds out of order."""
        if not 1 <= self.least <= self.most:
            raise ConfigError(f"the number of workers needs bounds from 1 up; got {self.least} to {self.most}")
        if not 0 < self.low < self.high:
            raise ConfigError(f"utilisation needs bounds above 0, the lower first; got {self.low} and {self.high}")

    @classmethod
    def of(cls, text: str) -> "Utilisation":
        """Bounds of the number of workers as LEAST:MOST.

        >>> Utilisation.of("2:8").most
        8
        """
        least, colon, most = text.partition(":")
        if not colon or not least.isdigit() or not most.isdigit():
            raise ConfigError(f"the bounds of the number of workers are given as LEAST:MOST; got {text!r}")
        return cls(int(least), int(most))

    def wanted(self, busy: float, workers: int) -> int:
        """The number of workers to have, if `workers` were busy for the share `busy` of their time."""
        fitting = max(1, ceil(workers * busy / ((self.low + self.high) / 2)))
        if busy > self.high:
            workers = max(workers + 1, fitting)
        elif busy < self.low:
            workers = min(workers, fitting)
        return min(self.most, max(self.least, workers))


def resized(loads: Loads, binding: Binding, workers: int, horizon_s: float = 10.0) -> Binding:
    """The binding for another number of workers, with few moves.

    Instances of removed workers go to the least loaded of the others, the heaviest first. New workers take what the
    others have above their fair share, the heaviest that fits first. Instances without a load count as light.
    """
    if workers < 1:
        raise BindingError(f"a binding needs at least one worker; got {workers}")
    work_s = _work(loads, binding, horizon_s)
    worker_of = dict(binding.worker_of)
    load_s = [0.0] * max(workers, binding.workers)
    for instance, worker in worker_of.items():
        load_s[worker] += work_s[instance]
    if workers < binding.workers:
        orphans = [instance for instance, worker in worker_of.items() if worker >= workers]
        for instance in sorted(orphans, key=lambda one: -work_s[one]):
            least = min(range(workers), key=load_s.__getitem__)
            worker_of[instance] = WorkerId(least)
            load_s[least] += work_s[instance]
    else:
        for new in range(binding.workers, workers):
            _fill(WorkerId(new), worker_of, work_s, load_s, sum(load_s) / workers)
    return Binding(worker_of, workers)


def _work(loads: Loads, binding: Binding, horizon_s: float) -> dict[InstanceId, float]:
    """Work of every instance; a little if none is known, so that the number of instances is balanced then."""
    known = dict(zip(loads.instances, loads.work_s(horizon_s).tolist(), strict=True))
    little = max(known.values(), default=0.0) * 1e-6 or 1.0
    return {instance: max(little, known.get(instance, 0.0)) for instance in binding.worker_of}


def _fill(
    worker: WorkerId,
    worker_of: dict[InstanceId, WorkerId],
    work_s: dict[InstanceId, float],
    load_s: list[float],
    fair_s: float,
) -> None:
    """Fill a new worker up to the fair share with instances of workers above theirs."""
    for instance in sorted(worker_of, key=lambda one: -work_s[one]):
        source = worker_of[instance]
        fits = load_s[worker] + work_s[instance] <= fair_s
        if source != worker and fits and load_s[source] - work_s[instance] >= fair_s * (1 - 1e-9):
            worker_of[instance] = worker
            load_s[source] -= work_s[instance]
            load_s[worker] += work_s[instance]
