"""Costs of the parts of an epoch: those that `shoal profile --on spark` has fitted, or usual ones.

The usual ones are those of an almost empty epoch with 300 queries on two cores, 85 ms in all, as docs/benchmarks.md has
it; what rows cost is then said by the delay model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.errors import ConfigError
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.delay.model import DelayModel

READING_S, WORKER_S, LANE_S = 0.004, 0.006, 0.0003
"""Fixed time of a reading task, of a worker's task, and of a lane in it."""
WORKER_BYTE_S = 2e-9
"""Time of a worker's task per byte that it receives, or writes as state."""
DRIVER = Cost(fixed_s=0.030, event_s=0.006, result_s=2e-7)
"""The driver's time per epoch, task and result. A Python stage of two tasks adds about 10 ms to a micro-batch."""
BETWEEN_S = 0.026
"""Time between two epochs, in which Spark logs and plans; half of it before the epoch."""
SLOTS = 2
"""The slots of the machine that these were measured on."""
LAUNCH_S = 0.0005
"""The least time of the driver per task, however many slots there are: an estimate, 2,000 tasks per second."""
LOAD_BYTE_S = 1e-9
"""Time to load a byte of state that another worker wrote, beside the link: what control assumes of any link, too."""
EFFORT = ("looked_up_s", "compared_s", "begun_s", "ended_s")
PER_ROW = ("event_s", "result_s", "state_byte_s", *EFFORT, "uncounted_s")
"""What rows, results and state cost, in a task of Spark."""
AGAIN = "measure it again with shoal profile --on spark"


@dataclass(frozen=True)
class SmallEpochCosts:
    """Costs of an epoch in which the driver does the work of the workers itself: those of a worker, and of the rest.

    It does so if the workers together took at most `most_s` in the epoch before, with so many bytes sent to them, and
    have so many bytes of state.
    """

    worker: Cost
    driver: Cost
    most_s: float
    most_sent_bytes: float
    most_state_bytes: float


@dataclass(frozen=True)
class EpochCosts:
    """Seconds of the parts of an epoch at speed 1; events of the driver are its tasks.

    `slots`: those of the machine on which the driver's time per task was measured. `pair_s` of a lane is per event of
    an instance and byte of its state. `small`: what small epochs cost, if the driver finishes them itself.
    """

    reading: Mapping[str, Cost]
    lanes: Mapping[int, Cost]
    worker: Cost
    driver: Cost
    between_s: float
    slots: int = SLOTS
    small: SmallEpochCosts | None = None

    def scaled(self, factor: float) -> "EpochCosts":
        """The same with more work for every row, and as much for every task and epoch."""
        reading = {stream: _times(cost, factor) for stream, cost in self.reading.items()}
        lanes = {number: _times(cost, factor) for number, cost in self.lanes.items()}
        return replace(self, reading=reading, lanes=lanes)

    def driver_s(self, tasks: int, results: int, slots: int) -> float:
        """The time of the driver for an epoch on so many slots.

        Most of the time per task passes in the slot, before and behind the task's own work, and the other slots do the
        same meanwhile. So it shrinks as slots are added, down to what the driver needs to launch a task.
        """
        shared_s = self.driver.event_s * self.slots / max(slots, self.slots)
        task_s = min(self.driver.event_s, max(LAUNCH_S, shared_s))
        return self.driver.fixed_s + task_s * tasks + self.driver.result_s * results


def usual_costs(program: Program, model: DelayModel) -> EpochCosts:
    """The usual costs around what a delay model says of streams and lanes."""
    return EpochCosts(
        {stream: _with_fixed(model.stream(stream), READING_S) for stream in program.inputs},
        {lane.number: _with_fixed(model.lane(lane), LANE_S) for lane in program.lanes if lane.kernel is not None},
        Cost(fixed_s=WORKER_S, state_byte_s=WORKER_BYTE_S),
        DRIVER,
        BETWEEN_S,
    )


def _with_fixed(cost: Cost, fixed_s: float) -> Cost:
    """A cost per row with the fixed time of a task; that of a turn on the local runtime is another one."""
    return Cost(fixed_s, **{name: getattr(cost, name) for name in PER_ROW})


def _times(cost: Cost, factor: float) -> Cost:
    """The same with more work per row."""
    return replace(cost, **{name: factor * getattr(cost, name) for name in (*PER_ROW, "pair_s")})


def has_epochs(profile: Mapping[str, Any] | None) -> bool:
    """Whether a profile was taken on Spark."""
    return profile is not None and isinstance(profile.get("epochs"), Mapping)


def profiled_costs(program: Program, profile: Mapping[str, Any]) -> EpochCosts:
    """The costs of a profile of the same queries, taken in a session whose driver and workers share one machine."""
    epochs = profile["epochs"]
    parts = epochs.get("parts")
    if not isinstance(parts, list) or not isinstance(epochs.get("slots"), int):
        raise ConfigError(f"profile must have slots and a list of parts under 'epochs'; {AGAIN}")
    reading = {part["stream"]: Cost.of(part["cost"]) for part in parts if part["kind"] == "reading task"}
    lanes = {part["lane"]: part for part in parts if part["kind"] == "lane"}
    for stream in program.inputs:
        if stream not in reading:
            raise ConfigError(f"profile has no reading task of stream {stream!r}; {AGAIN}")
    found = {lane.number: _lane_cost(lane, lanes) for lane in program.lanes if lane.kernel is not None}
    others = {part["kind"]: Cost.of(part["cost"]) for part in parts if part["kind"] not in ("reading task", "lane")}
    if missing := [kind for kind in ("worker task", "driver") if kind not in others]:
        raise ConfigError(f"profile has no cost of a {missing[0]}; {AGAIN}")
    between_s = others["between epochs"].fixed_s if "between epochs" in others else BETWEEN_S
    small = _small_costs(others, epochs.get("small"))
    return EpochCosts(reading, found, others["worker task"], others["driver"], between_s, epochs["slots"], small)


def _small_costs(others: Mapping[str, Cost], limits: Mapping[str, Any] | None) -> SmallEpochCosts | None:
    """What small epochs cost; None if the profile met none, because all were too large."""
    if limits is None:
        raise ConfigError(f"profile does not say which epochs are small; {AGAIN}")
    if "driver of small epoch" not in others:
        return None
    bounds = {name: float(limits[name]) for name in ("most_s", "most_sent_bytes", "most_state_bytes")}
    return SmallEpochCosts(others["worker of small epoch"], others["driver of small epoch"], **bounds)


def _lane_cost(lane: Lane, parts: Mapping[int, Mapping[str, Any]]) -> Cost:
    """The cost of a lane, if the profile has one with the same operators."""
    operators = sorted({str(instance).rpartition("/")[0] for instance in lane.instances})
    part = parts.get(lane.number)
    if part is None or list(part["operators"]) != operators:
        raise ConfigError(f"profile is one of other queries: lane {lane.number} has other operators there; {AGAIN}")
    return Cost.of(part["cost"])
