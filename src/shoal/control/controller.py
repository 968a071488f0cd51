"""The controller: events up, commands down. Snapshot, trigger, policy, decision, command, journal.

It reads no clock: the time comes with each event. Its decisions depend on the events alone.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from shoal.control.effects.kept_streak import KeptStreak
from shoal.control.effects.promises import Promises
from shoal.control.history import History
from shoal.control.host_departure import Departures, expanded, leaving_of, remaining
from shoal.control.journal import Entry, Lost, Parked, Refused, Rejected, Scaled
from shoal.control.names import instance_names
from shoal.control.observation import Observation, merged_snapshots
from shoal.control.partitions.rebalancing import Rebalancing, RunNow
from shoal.control.partitions.remembered import Remembered
from shoal.control.partitions.repartitioning import Divisions
from shoal.control.proposal import Case, Verdict, decided, judged
from shoal.control.reaction import NOTHING, Reaction
from shoal.control.settings import ControlSettings, deadlines_of
from shoal.control.trigger import reason, triggers_of
from shoal.control.twin.adviser import Adviser
from shoal.model.control.binding import Binding
from shoal.model.control.messages import (
    Command,
    CommandRefused,
    EpochCommitted,
    Event,
    MessageRejected,
    MoveLimit,
    MovesFinished,
    QueriesParked,
    Rebind,
    Repartition,
    WorkersLost,
)
from shoal.model.control.partitioning import DECLARED, Partitioning
from shoal.model.control.snapshot import Snapshot
from shoal.model.query.graph import Graph
from shoal.policies.binding.layout import Layout
from shoal.policies.binding.loads import Loads
from shoal.policies.catalog import (
    ASKED_ONCE,
    DYNAMIC,
    GOALS,
    SPLITTING,
    TRIGGERS,
    USUAL_TRIGGER,
    BindingPolicy,
)
from shoal.policies.scaling import resized

LEAVING = "departure"
FULL = "all workers share a queue and are busy, so that moves gain nothing"


class Controller:
    """Decides for one run; `policy` is the name of a dynamic policy, or any other name for none."""

    def __init__(
        self,
        graph: Graph,
        policy: str,
        settings: ControlSettings | None = None,
        *,
        stops_to_divide: bool = False,
        mechanisms: Sequence[str] = (),
        sheds: bool = False,
    ) -> None:
        """Start without any observation.

        `stops_to_divide`: the runtime processes all it has read before a split. `mechanisms`: those among which the
        twin chooses one for every rebinding; without any, the runtime uses its own. `sheds`: that one chooses state.
        """
        self.policy = policy
        self.settings = settings or ControlSettings()
        self._asked: BindingPolicy | None = DYNAMIC.get(policy)
        self._goal = GOALS.get(policy)
        deadlines_of(self.settings.deadline_ms).check(policy, graph.queries)
        self._triggers = triggers_of(self.settings.trigger or TRIGGERS.get(policy, USUAL_TRIGGER))
        self._history = History(self.settings)
        self._graph, self._partitioning = graph, DECLARED
        self._layout = self._laid_out()
        self._names = instance_names(graph)
        splitting = self.settings.splitting if policy in SPLITTING else None
        self._divisions = Divisions(None if splitting is None else replace(splitting, stops=stops_to_divide))
        self._rebalancing = Rebalancing.of(policy, graph, self.settings)
        ahead = self.settings.departures == "ahead" and policy in DYNAMIC
        self._departures = Departures(self.settings.horizon_s, leaving_of(self.settings.leave), ahead, sheds)
        self._snapshots: list[Snapshot] = []
        self._newest: Snapshot | None = None
        self._loads: Loads | None = None
        self._promises = Promises(self.settings)
        self._streak = KeptStreak(policy)
        self._moving = ""
        self._rebinds = 0
        self._decisions = 0
        self._agreed: deque[int] = deque(maxlen=self.settings.patience)
        self._adviser = Adviser(mechanisms, self.settings) if mechanisms else None
        self._triggers += [] if self._adviser is None else [self._adviser.patience]

    def _laid_out(self) -> Layout:
        """The instances as policies see them, with the deadlines of queries."""
        layout = Layout.of(self._graph, partitioning=self._partitioning)
        deadline_s = deadlines_of(self.settings.deadline_ms).of(self._graph.queries)
        return replace(layout, paths=replace(layout.paths, deadline_s=deadline_s)) if deadline_s else layout

    def handle(self, event: Event) -> Reaction:
        """React to one event of the runtime; called once per event, in order."""
        return self._advised(self._reaction(event, event.at_s), event.at_s)

    def _advised(self, reaction: Reaction, now_s: float) -> Reaction:
        """The same reaction, each rebinding with the mechanism that the twin advises."""
        adviser, newest = self._adviser, self._newest
        if adviser is None or newest is None or not reaction.commands:
            return reaction
        loads = self._loads or self._layout.loads(newest if newest.period_s else replace(newest, period_s=1.0))
        observed = Observation.of(replace(loads, costs=self._history.costs), newest, self.settings.horizon_s)
        left_s = self._departures.left_s(observed.topology.hosts, now_s)
        commands, entries = list[Command](), list[Entry](reaction.entries)
        for command in reaction.commands:
            if isinstance(command, Rebind) and command.mechanism is None:
                command, advice = adviser.advised(command, observed, left_s, now_s)  # noqa: PLW2901
                entries += advice
            commands.append(command)
        return Reaction(tuple(commands), tuple(entries))

    def _reaction(self, event: Event, now_s: float) -> Reaction:
        if isinstance(event, EpochCommitted):
            return self._epoch(event, now_s)
        if isinstance(event, WorkersLost):
            return self._lost(event, now_s)
        if isinstance(event, CommandRefused):
            return self._refused(event, now_s)
        if isinstance(event, MovesFinished):
            return self._finished(event, now_s)
        if isinstance(event, MessageRejected):
            return Reaction((), (Rejected(now_s, event.file, event.reason),))
        if isinstance(event, QueriesParked):
            return Reaction((), (Parked(now_s, event.queries, event.reason, event.row),))
        return Reaction((), self._streak.ended())

    def _refused(self, event: CommandRefused, now_s: float) -> Reaction:
        command = event.command
        if isinstance(command, Rebind) and command.id == self._moving:
            self._moving = ""
            self._promises.refuse(command.id)
        if isinstance(command, Repartition):
            self._divisions.refuse(command)
        if self._rebalancing is not None:
            self._rebalancing.refuse()
        return Reaction((), (Refused(now_s, type(command).__name__, event.reason),))

    def _finished(self, event: MovesFinished, now_s: float) -> Reaction:
        """Note that moves were made, or given up: then there is nothing to measure.

        The snapshots so far are partly from before the moves. They are dropped, so that a whole observation follows
        before the decision is measured or another one is taken.
        """
        if event.resumed:
            return NOTHING
        if event.rebind == self._moving:
            self._moving, self._snapshots = "", []
        entries = self._promises.finished(event, now_s, overtaken=bool(self._moving))
        return Reaction((), entries if self._adviser is None else (*self._adviser.finished(event, now_s), *entries))

    def _command(self, binding: Binding, name: str, limit: MoveLimit | None = None) -> Rebind:
        """A rebinding with an id that is unique within this controller."""
        self._rebinds += 1
        self._moving = f"{name} {self._rebinds}"
        return Rebind(binding, id=self._moving, limit=limit)

    def _epoch(self, event: EpochCommitted, now_s: float) -> Reaction:
        snapshot = event.snapshot
        self._history.learn(event)
        graph = self._graph if snapshot.graph is None else snapshot.graph
        if graph is not self._graph or snapshot.partitioning != self._partitioning:
            self._begin_again(graph, snapshot.partitioning)
        self._newest = snapshot
        if self._adviser is not None:
            self._adviser.note(snapshot, graph)
        left = self._leave(event, now_s)
        left = left or self._rebalance(event)
        if left is not None:
            return left
        if self._asked is None and self.settings.scaling is None and not self._promises.open:
            return NOTHING
        self._snapshots.append(snapshot)
        observed_s = sum(one.period_s for one in self._snapshots)
        window_s = self.settings.profile_s if self.policy in ASKED_ONCE else self.settings.window_s
        if observed_s < window_s or not all(i in snapshot.binding.worker_of for i in self._layout.instances):
            return NOTHING
        whole, self._snapshots = merged_snapshots(self._snapshots), []
        self._loads = loads = self._layout.loads(whole, self._loads)
        observed = Observation.of(loads, whole, self.settings.horizon_s)
        ahead = Observation.of(self._history.ahead(loads, whole.period_s), whole, self.settings.horizon_s)
        entries = self._promises.measured(observed, self._goal, event.epoch, now_s)
        measured = Reaction((), (*entries, *self._divisions.measured(observed, event.epoch, now_s)))
        self._history.add(observed)
        resting = self._promises.resting(now_s) or self._divisions.under_way(now_s)
        if resting or self._promises.open or self._moving:
            return measured
        return measured + (
            self._scale(observed, event.epoch, now_s)
            or self._divide(observed, event.epoch, now_s)
            or self._rebind(ahead, event.epoch, now_s)
        )

    def _rebalance(self, event: EpochCommitted) -> Reaction | None:
        """Let a spatial policy change the partitions of the plane; None if there is nothing to do."""
        if self._rebalancing is None:
            return None
        ready = not self._moving and not self._promises.open
        found = self._rebalancing.take(event, RunNow(self._graph, self._partitioning, self._names, ready))
        if found is None:
            return None
        moves = () if found.binding is None else (self._command(found.binding, self.policy),)
        commands = moves if found.changes is None else (found.changes, *moves)
        return Reaction(commands, (*self._streak.ended(), *found.entries))

    def remembered(self, epoch: int, now_s: float) -> Remembered | None:
        """What a run that goes on after an epoch must know of the partitions of the plane, if anything."""
        return None if self._rebalancing is None else self._rebalancing.remembered(epoch, now_s)

    def resume(self, remembered: Remembered) -> None:
        """Go on with what an earlier run has remembered; called before the first event."""
        if self._rebalancing is not None:
            self._rebalancing.resume(remembered)

    def _begin_again(self, graph: Graph, partitioning: Partitioning) -> None:
        """Drop all observations: queries were added or removed, or instances were split or merged."""
        self._graph, self._partitioning = graph, partitioning
        self._layout = self._laid_out()
        self._names = instance_names(graph, partitioning)
        self._history.forget()
        self._promises.drop()
        self._snapshots, self._loads = [], None

    def _leave(self, event: EpochCommitted, now_s: float) -> Reaction | None:
        """Let instances leave hosts that are about to go; whatever else is moving is superseded."""
        snapshot, departures = event.snapshot, self._departures
        departures.note(snapshot.topology, now_s)
        if self._leaving or not snapshot.period_s > 0 or not departures.expects(snapshot.topology, now_s):
            return None
        loads = replace(self._layout.loads(snapshot, self._loads), costs=self._history.costs)
        observation = Observation.of(loads, snapshot, self.settings.horizon_s)
        found = departures.due(observation, snapshot.period_s, now_s)
        if found is None:
            return None
        entry = found.entry(event.epoch, now_s, self._names)
        if not found.moved:
            return Reaction((), (*self._streak.ended(), entry))
        self._promises.pause(now_s)
        return Reaction((self._command(found.binding, LEAVING, found.limit),), (*self._streak.ended(), entry))

    @property
    def _leaving(self) -> bool:
        """Whether instances are on their way from hosts that go."""
        return self._moving.startswith(LEAVING)

    def _scale(self, observation: Observation, epoch: int, now_s: float) -> Reaction | None:
        """Change the number of workers if several observations in a row agree."""
        scaling = self.settings.scaling
        if scaling is None:
            return None
        workers = observation.binding.workers
        wanted = scaling.wanted(observation.busy, workers)
        self._agreed.append((wanted > workers) - (wanted < workers))
        if len(self._agreed) < self.settings.patience or abs(sum(self._agreed)) < self.settings.patience:
            return None
        self._agreed.clear()
        why = f"workers were busy for {observation.busy:.0%} of their time"
        return self.resize(wanted, why, epoch, now_s)

    def resize(self, workers: int, why: str, epoch: int, now_s: float) -> Reaction | None:
        """Ask for another number of workers; None before the first snapshot, or if the number is right already."""
        newest = self._newest
        if newest is None or workers == newest.binding.workers:
            return None
        rebind, moved = self._resized(newest, workers, now_s)
        entry = Scaled(now_s, epoch, newest.binding.workers, workers, why, moved)
        return self._advised(Reaction((rebind,), (*self._streak.ended(), entry)), now_s)

    def _lost(self, event: WorkersLost, now_s: float) -> Reaction:
        """Bind everything to the remaining workers."""
        newest = self._newest
        left = 0 if newest is None else newest.binding.workers - len(event.workers)
        if newest is None or left < 1:
            return Reaction((), (*self._streak.ended(), Lost(now_s, event.workers, event.reason, 0)))
        rebind, moved = self._resized(newest, left, now_s)
        return Reaction((rebind,), (*self._streak.ended(), Lost(now_s, event.workers, event.reason, moved)))

    def _resized(self, newest: Snapshot, workers: int, now_s: float) -> tuple[Rebind, int]:
        """The command for another number of workers, and how many instances move."""
        loads = self._loads if self._loads is not None else self._layout.loads(replace(newest, period_s=1.0))
        after = resized(loads, newest.binding, workers, self.settings.horizon_s)
        self._promises.drop_made()  # its effect cannot be separated from that of the resize
        self._history.forget_workers()
        self._promises.pause(now_s)
        return self._command(after, "resize"), sum(1 for _ in newest.binding.diff(after))

    def _divide(self, observation: Observation, epoch: int, now_s: float) -> Reaction | None:
        """Split instances that are too large for any worker, and merge idle parts."""
        hosts = observation.topology.hosts
        if self._full(observation) or (hosts is not None and self._departures.away(hosts, now_s)):
            return None  # new instances would go to the workers that have been left
        found = self._divisions.proposed(observation, self._graph, self._partitioning, self._names, epoch, now_s)
        if found is None:
            return None
        command, entries = found
        self._promises.pause(now_s)
        return Reaction((command,), (*self._streak.ended(), *entries))

    def _full(self, observation: Observation) -> bool:
        """Whether all workers are at work already, whatever the binding: then no other binding gets more done."""
        obeyed = self.settings.decision == "always"
        return observation.topology.shared and self._history.busy > self.settings.full and not obeyed

    def _rebind(self, observation: Observation, epoch: int, now_s: float) -> Reaction:
        """Ask the policy if a trigger fires, and make the moves that pay."""
        if self._asked is None:
            return NOTHING
        once = self.policy in ASKED_ONCE
        hosts = observation.topology.hosts
        away = () if hosts is None else self._departures.away(hosts, now_s)
        part = remaining(observation, away) if 0 < len(away) < observation.binding.workers else observation
        why = "the profile is complete" if once else reason(self._triggers, part, now_s)
        if not why:
            return Reaction((), self._streak.ended())
        if self._full(observation):
            full = Verdict(observation.binding, refused=FULL, peak=observation.peak)
            return Reaction((), self._streak.add(full, why, epoch, now_s))
        wanted = self._asked.propose(part.loads, part.binding, part.topology)
        if part is not observation:
            wanted = expanded(wanted, part, observation.binding)
        verdict = self._judged(observation, wanted, away, now_s)
        self._asked = None if once and not verdict.postponed else self._asked
        if verdict.refused:
            return Reaction((), self._streak.add(verdict, why, epoch, now_s))
        return self._decide(observation, verdict, why, epoch, now_s)

    def _judged(self, observation: Observation, wanted: Binding, away: Sequence[int], now_s: float) -> Verdict:
        """The verdict on a proposal; the twin chooses hosts and moment, if there is one."""
        case = Case(self._history.scores, self.settings, self._names, self._goal, away)
        if self._adviser is None:
            return judged(observation, wanted, case)
        hosts, departures = observation.topology.hosts, self._departures
        left_s = departures.left_s(hosts, now_s)
        verdict = self._adviser.hosted(wanted, observation, case, (left_s, departures.back_s(hosts, now_s)), now_s)
        return self._adviser.timely(verdict, observation, left_s, now_s)

    def _decide(self, observation: Observation, verdict: Verdict, why: str, epoch: int, now_s: float) -> Reaction:
        self._decisions += 1
        entry = decided(observation, verdict, self._decisions, why, self.policy, epoch, now_s)
        command = self._command(verdict.binding, "decision")
        self._promises.add(entry, command.id)
        self._promises.pause(now_s)
        return Reaction((command,), (*self._streak.ended(), entry))
