"""Settings of simulated runs: the machine, what is simulated and how, by name as the command line gives them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property

from shoal.compiler.program import Program
from shoal.errors import ConfigError, did_you_mean
from shoal.mechanisms.shedding.selection import selection_named
from shoal.policies.catalog import QUEUED, QUEUES_OF, SERVING_OF
from shoal.policies.scheduling.catalog import SCHEDULING
from shoal.policies.scheduling.serving import BY_AGE, RESULTS_FIRST, SERVING
from shoal.runtimes.measured.profile_file import read_profile
from shoal.runtimes.setting_value import setting_value
from shoal.runtimes.simulated.delay.measured_contention import Contention
from shoal.runtimes.simulated.delay.model import DELAY_MODELS, DelayModel, delay_model, weights_of
from shoal.runtimes.simulated.delivery import Delivery
from shoal.runtimes.simulated.engine.simulation import NO_LIMIT, QUEUES, Rules
from shoal.runtimes.simulated.machine.machine import Machine
from shoal.runtimes.simulated.machine.notation import machine_named

MODES = {
    "real": "kernels process real rows; results are those of any other runtime",
    "statistical": "no rows: operators emit by measured selectivities",
}
DETAILS = {
    "steps": "the work of a step is placed in time as a whole; fast, for machines of any size",
    "rows": "every instance processes its rows when they have reached it; exact, for migrations over networks",
}
SOURCES = {"worker": "sources are read by workers", "outside": "events come from outside, at no cost"}
ARRIVALS = {
    "spread": "events of a step are due one after another, so that they wait for its end",
    "step": "events of a step are due together, at its end, as a recording that is replayed step by step",
}
ALIGNMENTS = {
    "none": "every source is read as fast as it can be",
    "event-time": "a source that is ahead of another in event time waits for it",
}
ORDER_OF = {"fcfs": "first-come", "round-robin": "turns"}
"""The order of a queue under a scheduling policy; by priority under the others."""
DEFAULT_CORES = 2
"""Cores of the machine if neither a topology nor workers are given."""
REPLICATION_S = 1.0
CONTENTIONS = {
    "none": "workers do not slow each other down, unless the machine file says so",
    "profile": "as much as measured on the local runtime, where threads share the interpreter lock",
}
CHOICES = {
    "mode": tuple(MODES),
    "detail": tuple(DETAILS),
    "delay": DELAY_MODELS,
    "contention": tuple(CONTENTIONS),
    "source": tuple(SOURCES),
    "arrival": tuple(ARRIVALS),
    "alignment": tuple(ALIGNMENTS),
    "queues": ("", *QUEUES),
    "serving": ("", *SERVING),
    "scheduling": ("", *(name for name in SCHEDULING if name != "threads")),
}
NEED_TRACE = {"delay": "traced", "contention": "profile"}
AT_LEAST_1 = ("turn_steps", "block_rows", "sample_rows")
PLACES = ("sources_at", "results_at", "state_topology")
"""Settings that have no meaning unless every row is simulated."""
ABOVE_0 = ("step_s", "epoch_s", "hand_over_s", "work_factor", "replication_s")


@dataclass(frozen=True)
class SimulatedSettings:
    """How a simulated run goes.

    >>> SimulatedSettings.of({"topology": "numa:2x12", "step_s": "0.1"}).machine.workers
    24
    """

    topology: str = ""
    """The machine: see docs/reference/topologies.md; empty: one host with a core for every worker."""
    mode: str = "real"
    detail: str = "steps"
    """steps, or rows: every instance processes its rows when they have reached it, and state moves in pieces."""
    delay: str = "state-dependent"
    """The delay model: uniform, state-dependent, or traced, which needs a trace."""
    trace: str = ""
    """A profile of the target, written by `shoal profile --output`."""
    weights: str = ""
    """Times per event of kinds of operators, such as `join=10us,select=1us`, instead of those of the delay model."""
    work_factor: float = 1.0
    """Factor of all costs of the delay model, to calibrate it to an engine by one number."""
    source: str = "worker"
    sources_at: str = ""
    """Hosts that read streams, such as `Bid=edge-1,Auction=edge-2`; others are read as `source` says."""
    results_at: str = ""
    """Hosts that results are sent to over links, by table, such as `totals=server`; others leave at no cost."""
    state_topology: str = ""
    """A machine of the same hosts whose links carry state that moves; empty: it shares the links of the topology."""
    arrival: str = "spread"
    """When the events of a step are due: spread over it, or together at its end, which needs source=outside."""
    alignment: str = "none"
    """Whether sources without a rate wait for each other: none, or event-time."""
    step_s: float = 0.04
    """The time between two arrivals of events of a source with a rate."""
    block_rows: int = 131_072
    """The most rows of an arrival."""
    buffer_rows: int = 0
    """Rows on their way at which sources wait; 0: no limit with a rate, 8 blocks without."""
    epoch_s: float = 0.1
    """The time between two reports to the controller."""
    contention: str = "none"
    """Whether busy workers slow each other down as the profile has measured it."""
    delivery_s: float = 0.0
    """The time between two writes of results to the sink; 0: results are there as soon as they are computed."""
    turn_steps: int = 64
    """The most arrivals that a turn of an instance takes."""
    queues: str = ""
    """worker-queue, node-queue or single-queue; empty: by the policy."""
    scheduling: str = ""
    """The order of queues by a scheduling policy; empty: by event time."""
    serving: str = ""
    """How queues by event time are served: by-age or results-first; empty: by the policy."""
    standby: str = ""
    """A host that has replicas of all state, for moves by checkpoint-assisted and for hosts that are lost."""
    replication_s: float = REPLICATION_S
    """The time between two copies of state to the standby host."""
    hand_over_s: float = 1e-5
    """The fixed time of a move, and the work it makes for the new worker."""
    sample_rows: int = 20_000
    """Rows of a sample by which statistical mode divides a stream among instances, once per second."""
    selection: str = "greedy"
    """Which state moves first if there is no time for all of it: see docs/how-to/shed-state.md."""
    seed: int = 0
    trace_results: bool = False
    """Whether all turns are recorded, so that `result_times` says where the time of results went."""
    measure_policy: bool = False
    """Whether the processor time of policies is measured, which differs from run to run; otherwise it counts as 0."""

    def __post_init__(self) -> None:
        """Reject unknown names and values that make no sense."""
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                given, hint = ", ".join(filter(None, choices)), did_you_mean(getattr(self, name), choices)
                raise ConfigError(f"{name} must be one of {given}; got {getattr(self, name)!r}{hint}")
        for name in AT_LEAST_1:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1; got {getattr(self, name)}")
        for name in ABOVE_0:
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} must be more than 0; got {getattr(self, name)}")
        if self.buffer_rows < 0:
            raise ConfigError(f"buffer_rows must be 0 or more; got {self.buffer_rows}")
        if not 0 <= self.delivery_s < float("inf"):
            raise ConfigError(f"delivery_s must be 0 or more; got {self.delivery_s}")
        self._check_trace()
        selection_named(self.selection)
        weights_of(self.weights)
        if self.arrival == "step" and self.source != "outside":
            raise ConfigError("arrival=step needs source=outside: a worker that is late would read them late")
        if self.topology:
            _ = self.machine
        self._check_standby()
        self._check_places()

    def _check_places(self) -> None:
        for setting in ("sources_at", "results_at"):
            self.places(setting)
        if self.state_topology:
            names, others = ([host.name for host in each.hosts] for each in (self.machine, self.state_machine))
            if names != others:
                raise ConfigError(
                    f"state_topology must have the hosts of the topology, {', '.join(names)}; got {', '.join(others)}"
                )

    def places(self, setting: str) -> dict[str, int]:
        """The number of the host of every name in `sources_at` or `results_at`.

        >>> SimulatedSettings(topology="star:2@1Mbit", sources_at="Bid=host-2").places("sources_at")
        {'Bid': 1}
        """
        text, names = getattr(self, setting), [host.name for host in self.machine.hosts]
        found: dict[str, int] = {}
        for entry in filter(None, text.split(",")):
            name, equals, host = entry.strip().rpartition("=")
            if not equals or not name or host not in names:
                known = ", ".join(names)
                raise ConfigError(
                    f"{setting} must be names and hosts, as in Bid={names[0]}; hosts are {known}; got {entry!r}"
                )
            found[name] = names.index(host)
        return found

    @property
    def placed(self) -> str:
        """The settings about places that are given, which need a run row by row; empty if none is."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in PLACES if getattr(self, name))

    def _check_standby(self) -> None:
        if not self.standby:
            if self.replication_s != REPLICATION_S:
                raise ConfigError(f"replication_s={self.replication_s} needs standby=HOST, which has the replicas")
            return
        names = [host.name for host in self.machine.hosts]
        if self.standby not in names:
            hint = did_you_mean(self.standby, names) or f"; there are {', '.join(names)}"
            raise ConfigError(f"standby must be a host of the topology; got {self.standby!r}{hint}")

    def _check_trace(self) -> None:
        needing = [f"{name}={value}" for name, value in NEED_TRACE.items() if getattr(self, name) == value]
        if needing and not self.trace:
            raise ConfigError(
                f"{needing[0]} needs trace=FILE, a profile of the target; `shoal profile --output` writes one"
            )

    @cached_property
    def state_machine(self) -> Machine:
        """The machine whose links carry state that moves."""
        return machine_named(self.state_topology) if self.state_topology else self.machine

    @cached_property
    def machine(self) -> Machine:
        """The machine of the topology."""
        return machine_named(self.topology or f"cores:{DEFAULT_CORES}")

    def machine_at(self, *, limited: bool) -> Machine:
        """The machine with its contention; `limited`: whether some source is read as fast as it can be."""
        found = self._contention(limited=limited)
        return self.machine if found is None else found.on(self.machine)

    @property
    def imitates_local(self) -> bool:
        """Whether everything that the local runtime does in turns of its own is a task of its own."""
        return self.delay == "traced" and self.contention == "profile"

    def _contention(self, *, limited: bool) -> Contention | None:
        return None if self.contention == "none" else Contention.of(read_profile(self.trace), limited=limited)

    def for_workers(self, workers: int) -> "SimulatedSettings":
        """These settings with a machine, if they name none."""
        return self if self.topology else replace(self, topology=f"cores:{workers}")

    def bound(self, policy: str | None) -> "SimulatedSettings":
        """These settings with the queues that a policy needs, and how it has them served."""
        chooses = not self.scheduling and not self.imitates_local
        if self.serving == RESULTS_FIRST and self.scheduling:
            raise ConfigError(f"serving=results-first is for queues by event time; got scheduling={self.scheduling}")
        if self.serving == RESULTS_FIRST and self.imitates_local:
            raise ConfigError("contention=profile imitates the local runtime, which serves by age; leave serving out")
        usual = SERVING_OF.get(policy or "", BY_AGE) if chooses else BY_AGE
        return replace(self, serving=self.serving or usual, queues=self._queues_for(policy))

    def _queues_for(self, policy: str | None) -> str:
        """The queues given, or those that a policy needs."""
        if policy is None and self.scheduling:
            return self.queues or "single-queue"
        usual = policy if policy in QUEUED else QUEUES_OF.get(policy or "", "worker-queue")
        if policy in QUEUED and self.queues not in ("", usual):
            raise ConfigError(f"policy {policy} goes with queues={usual}; got queues={self.queues}")
        return self.queues or usual

    def delivery(self, *, limited: bool) -> Delivery:
        """How results reach the sink."""
        found = self._contention(limited=limited)
        return Delivery(self.delivery_s, self.seed, () if found is None else found.deliveries)

    def delays(self, program: Program, *, limited: bool = False) -> DelayModel:
        """The delay model for a program; `limited`: whether some source is read as fast as it can be."""
        profile = None if not self.trace else read_profile(self.trace)
        slowed = self._contention(limited=limited)
        return delay_model(self.delay, program, profile, weights_of(self.weights), divided=True, slowed=slowed)

    def rules(self, *, limited: bool) -> Rules:
        """The rules of the core; `limited`: whether some source is read as fast as it can be."""
        if self.queues == "single-queue" and len(self.machine.hosts) > 1:
            raise ConfigError(f"workers of several hosts share no queue; got queues=single-queue on {self.topology}")
        most = self.buffer_rows or (8 * self.block_rows if limited else NO_LIMIT)
        order = ORDER_OF.get(self.scheduling, "priority") if self.scheduling else "event-time"
        by_turn = self.delay == "traced"
        return Rules(
            self.queues or "worker-queue",
            order,
            self.turn_steps,
            most,
            self.hand_over_s,
            by_turn=by_turn,
            traced=self.trace_results,
            seed=self.seed,
        )

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "SimulatedSettings":
        """Settings from texts."""
        known = {each.name: each.type for each in fields(cls)}
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
                raise ConfigError(f"the simulated runtime has no setting {name!r}{hint}")
        return cls(**{name: setting_value(name, text, known[name]) for name, text in given.items()})
