"""The controller: events up, commands down. Snapshot, trigger, policy, decision, command, journal.

It reads no clock: the time comes with each event. What it decides depends on what it was told alone.
"""

from collections import deque
from dataclasses import dataclass, replace

from shoal.control.division import Divisions
from shoal.control.history import History
from shoal.control.journal import MOST_MOVES, Aborted, Decided, Entry, Kept, Lost, Measured, Refused, Scaled
from shoal.control.names import instance_names
from shoal.control.observation import Look, peak, together
from shoal.control.proposal import Verdict, judged
from shoal.control.settings import ControlSettings
from shoal.control.trigger import reason, triggers_of
from shoal.model.control.binding import Binding
from shoal.model.control.messages import (
    Command,
    CommandRefused,
    EpochCommitted,
    Event,
    MovesFinished,
    Rebind,
    Repartition,
    WorkersLost,
)
from shoal.model.control.partitioning import DECLARED, Partitioning
from shoal.model.control.snapshot import Snapshot
from shoal.model.query.graph import Graph
from shoal.policies.binding.layout import Layout
from shoal.policies.binding.loads import Loads
from shoal.policies.catalog import ASKED_ONCE, DYNAMIC, SPLITTING, BindingPolicy
from shoal.policies.scaling import resized

WORTH = 0.25
"""Share of what it promised that a decision must have brought, if the next one is not to wait longer."""


@dataclass(frozen=True)
class Reaction:
    """What the controller wants done, and what there is to say about it."""

    commands: tuple[Command, ...] = ()
    entries: tuple[Entry, ...] = ()

    def __add__(self, other: "Reaction") -> "Reaction":
        """Both, one after the other."""
        return Reaction(self.commands + other.commands, self.entries + other.entries)


NOTHING = Reaction()


@dataclass
class _Pending:
    """A decision whose effect has not been measured yet, and whether its moves have been made."""

    decided: Decided
    rebind: str
    made: bool = False


class Controller:
    """Decides for one run; `policy` is the name of a dynamic policy, or any other name for none."""

    def __init__(self, graph: Graph, policy: str, settings: ControlSettings | None = None) -> None:
        """Nothing seen yet."""
        self.policy = policy
        self.settings = settings or ControlSettings()
        self._asked: BindingPolicy | None = DYNAMIC.get(policy)
        self._triggers = triggers_of(self.settings.trigger)
        self._history = History(self.settings)
        self._graph, self._partitioning = graph, DECLARED
        self._layout = Layout.of(graph)
        self._names = instance_names(graph)
        self._divisions = Divisions(self.settings.splitting if policy in SPLITTING else None)
        self._snapshots: list[Snapshot] = []
        self._newest: Snapshot | None = None
        self._loads: Loads | None = None
        self._pending: _Pending | None = None
        self._moving = ""
        self._rebinds = 0
        self._decisions = 0
        self._rest_s = self.settings.rest_s
        self._rest_until_s = float("-inf")
        self._agreed: deque[int] = deque(maxlen=self.settings.patience)
        self._kept: Kept | None = None

    def handle(self, event: Event) -> Reaction:
        """What to do now that something has happened."""
        now_s = event.at_s
        if isinstance(event, EpochCommitted):
            return self._epoch(event, now_s)
        if isinstance(event, WorkersLost):
            return self._lost(event, now_s)
        if isinstance(event, CommandRefused):
            return self._refused(event, now_s)
        if isinstance(event, MovesFinished):
            return self._finished(event, now_s)
        return Reaction((), self._ended_streak())

    def _refused(self, event: CommandRefused, now_s: float) -> Reaction:
        command = event.command
        if isinstance(command, Rebind) and command.id == self._moving:
            self._moving = ""
            if self._pending is not None and self._pending.rebind == command.id:
                self._pending = None
        if isinstance(command, Repartition):
            self._divisions.refuse(command)
        return Reaction((), (Refused(now_s, type(command).__name__, event.reason),))

    def _finished(self, event: MovesFinished, now_s: float) -> Reaction:
        """Moves have been made, or given up: then there is nothing to measure.

        What was observed so far is partly from before, so that a whole observation follows before the decision is
        measured, or another one taken.
        """
        if event.resumed:
            return NOTHING
        if event.rebind == self._moving:
            self._moving, self._snapshots = "", []
        pending = self._pending
        if pending is None or pending.rebind != event.rebind:
            return NOTHING
        pending.made = not event.aborted
        if pending.made and not self._moving:
            return NOTHING
        self._pending = None  # given up, or overtaken by other moves that change what would be measured
        if pending.made:
            return NOTHING
        made, reason = len(event.moves) - len(event.aborted), event.aborted[0].aborted
        return Reaction((), (Aborted(now_s, pending.decided.number, made, len(event.aborted), reason),))

    def _command(self, binding: Binding, name: str) -> Rebind:
        """A rebinding under an id that no other of this controller has."""
        self._rebinds += 1
        self._moving = f"{name} {self._rebinds}"
        return Rebind(binding, id=self._moving)

    def _epoch(self, event: EpochCommitted, now_s: float) -> Reaction:
        snapshot = event.snapshot
        self._history.learn(event)
        graph = self._graph if snapshot.graph is None else snapshot.graph
        if graph is not self._graph or snapshot.partitioning != self._partitioning:
            self._begin_again(graph, snapshot.partitioning)
        self._newest = snapshot
        if self._asked is None and self.settings.scaling is None and self._pending is None:
            return NOTHING
        self._snapshots.append(snapshot)
        seen_s = sum(one.period_s for one in self._snapshots)
        window_s = self.settings.profile_s if self.policy in ASKED_ONCE else self.settings.window_s
        if seen_s < window_s or not all(i in snapshot.binding.worker_of for i in self._layout.instances):
            return NOTHING
        whole, self._snapshots = together(self._snapshots), []
        self._loads = loads = self._layout.loads(whole)
        seen = Look.of(loads, whole, self.settings.horizon_s)
        ahead = Look.of(self._history.ahead(loads, whole.period_s), whole, self.settings.horizon_s)
        measured = self._measure(seen, event.epoch, now_s)
        measured += Reaction((), self._divisions.measured(seen, event.epoch, now_s))
        self._history.add(seen)
        if now_s < self._rest_until_s or self._pending is not None or self._moving:
            return measured
        return measured + (
            self._scale(seen, event.epoch, now_s)
            or self._divide(seen, event.epoch, now_s)
            or self._rebind(ahead, event.epoch, now_s)
        )

    def _begin_again(self, graph: Graph, partitioning: Partitioning) -> None:
        """Queries have come or gone, or instances were divided: what was observed of them does not fit any more."""
        self._graph, self._partitioning = graph, partitioning
        self._layout = Layout.of(graph, partitioning=partitioning)
        self._names = instance_names(graph, partitioning)
        self._history.forget()
        self._snapshots, self._pending, self._loads = [], None, None

    def _scale(self, look: Look, epoch: int, now_s: float) -> Reaction | None:
        """Change the number of workers if several looks in a row agree on how."""
        scaling = self.settings.scaling
        if scaling is None:
            return None
        workers = look.binding.workers
        wanted = scaling.wanted(look.busy, workers)
        self._agreed.append((wanted > workers) - (wanted < workers))
        if len(self._agreed) < self.settings.patience or abs(sum(self._agreed)) < self.settings.patience:
            return None
        self._agreed.clear()
        why = f"workers were busy for {look.busy:.0%} of their time"
        return self.resize(wanted, why, epoch, now_s)

    def resize(self, workers: int, why: str, epoch: int, now_s: float) -> Reaction | None:
        """Ask for another number of workers; None before anything has been seen, or where it is as wanted."""
        newest = self._newest
        if newest is None or workers == newest.binding.workers:
            return None
        rebind, moved = self._resized(newest, workers, now_s)
        entry = Scaled(now_s, epoch, newest.binding.workers, workers, why, moved)
        return Reaction((rebind,), (*self._ended_streak(), entry))

    def _lost(self, event: WorkersLost, now_s: float) -> Reaction:
        """Bind everything to the workers that are left."""
        newest = self._newest
        left = 0 if newest is None else newest.binding.workers - len(event.workers)
        if newest is None or left < 1:
            return Reaction((), (*self._ended_streak(), Lost(now_s, event.workers, event.reason, 0)))
        rebind, moved = self._resized(newest, left, now_s)
        return Reaction((rebind,), (*self._ended_streak(), Lost(now_s, event.workers, event.reason, moved)))

    def _resized(self, newest: Snapshot, workers: int, now_s: float) -> tuple[Rebind, int]:
        """The command for another number of workers, and how many instances move."""
        loads = self._loads if self._loads is not None else self._layout.loads(replace(newest, period_s=1.0))
        after = resized(loads, newest.binding, workers, self.settings.horizon_s)
        if self._pending is not None and self._pending.made:
            self._pending = None  # what it brought cannot be told apart from what follows
        self._history.forget_workers()
        self._rest_until_s = now_s + self._rest_s
        return self._command(after, "resize"), sum(1 for _ in newest.binding.diff(after))

    def _divide(self, look: Look, epoch: int, now_s: float) -> Reaction | None:
        """Split what is too large for any worker, and merge what is idle."""
        found = self._divisions.proposed(look, self._graph, self._partitioning, self._names, epoch, now_s)
        if found is None:
            return None
        command, entries = found
        self._rest_until_s = now_s + self._rest_s
        return Reaction((command,), (*self._ended_streak(), *entries))

    def _rebind(self, look: Look, epoch: int, now_s: float) -> Reaction:
        """Ask the policy, if there is a reason, and do what pays."""
        if self._asked is None:
            return NOTHING
        once = self.policy in ASKED_ONCE
        why = "the profile is complete" if once else reason(self._triggers, look, now_s)
        if not why:
            return Reaction((), self._ended_streak())
        wanted = self._asked.propose(look.loads, look.binding, look.topology)
        if once:
            self._asked = None
        verdict = judged(look, wanted, self._history.scores, self.settings, self._names)
        if verdict.refused:
            return self._keep(verdict, why, epoch, now_s)
        return self._decide(look, verdict, why, epoch, now_s)

    def _decide(self, look: Look, verdict: Verdict, why: str, epoch: int, now_s: float) -> Reaction:
        self._decisions += 1
        moved = [move for move in verdict.moves if not move.refused]
        decided = Decided(
            at_s=now_s,
            number=self._decisions,
            epoch=epoch,
            trigger=why,
            policy=self.policy,
            peak_before=look.peak,
            peak_expected=peak(look.under(verdict.binding)),
            latency_before_s=look.slowest_s,
            moved=len(moved),
            stayed=len(verdict.moves) - len(moved),
            moved_bytes=sum(move.state_bytes for move in moved),
            moves=verdict.moves[:MOST_MOVES],
        )
        command = self._command(verdict.binding, "decision")
        self._pending = _Pending(decided, command.id)
        self._rest_until_s = now_s + self._rest_s
        return Reaction((command,), (*self._ended_streak(), decided))

    def _keep(self, verdict: Verdict, why: str, epoch: int, now_s: float) -> Reaction:
        """Say why nothing is done; once, however often that is the answer."""
        kept = self._kept
        if kept is not None and kept.reason == verdict.refused:
            self._kept = replace(kept, at_s=now_s, epoch=epoch, times=kept.times + 1)
            return NOTHING
        entries = self._ended_streak()
        moves = verdict.moves[:MOST_MOVES]
        first = Kept(now_s, epoch, why, self.policy, verdict.refused, verdict.peak, moves=moves)
        self._kept = replace(first, times=0, moves=())
        return Reaction((), (*entries, first))

    def _ended_streak(self) -> tuple[Entry, ...]:
        """How often the last answer was given again since it was written down."""
        kept, self._kept = self._kept, None
        return (kept,) if kept is not None and kept.times else ()

    def _measure(self, look: Look, epoch: int, now_s: float) -> Reaction:
        """Compare what the last decision brought with what it promised, by an observation from after its moves."""
        pending = self._pending
        if pending is None or not pending.made:
            return NOTHING
        self._pending = None
        decided = pending.decided
        worth = decided.peak_before - look.peak >= WORTH * (decided.peak_before - decided.peak_expected)
        self._rest_s = self.settings.rest_s if worth else min(self.settings.most_rest_s, 2 * self._rest_s)
        self._rest_until_s = now_s + (0.0 if worth else self._rest_s)
        measured = Measured(
            now_s,
            decided.number,
            epoch,
            decided.peak_before,
            decided.peak_expected,
            look.peak,
            decided.latency_before_s,
            look.slowest_s,
            self._rest_s,
        )
        return Reaction((), (measured,))
