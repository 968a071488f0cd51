"""Moves of queries during a simulated flow: one after another, and what each has cost."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shoal.errors import RunError
from shoal.experiments.experiment import Task
from shoal.model.control.binding import Binding, WorkerId
from shoal.model.control.messages import LostState, MoveReport, MovesFinished
from shoal.model.query.graph import InstanceId
from shoal.session.run import Run


@dataclass(eq=False)
class QueryMove:
    """Instances on their way to a node. `placing`: they have no state yet, so that the move costs nothing."""

    instances: tuple[InstanceId, ...]
    workers: tuple[int, ...]
    mechanism: str
    task: Task | None
    placing: bool = False
    request: str = ""
    report: MovesFinished | None = None

    @property
    def done(self) -> bool:
        """Whether all instances have arrived."""
        return self.report is not None


class MovingQueries:
    """Gives the moves of a flow to a run; a move begins when the one before has ended."""

    def __init__(self, run: Callable[[], Run], instances: Sequence[InstanceId], workers: int) -> None:
        """Nothing moves."""
        self._run, self._workers = run, workers
        self._where: dict[InstanceId, WorkerId] = dict.fromkeys(instances, WorkerId(0))
        self._queue: deque[QueryMove] = deque()
        self._moving: QueryMove | None = None
        self._seen: list[MovesFinished] = []
        self.made: list[QueryMove] = []
        self.rescues: list[MoveReport] = []
        """What instances have lost that went on elsewhere because their host was gone."""

    @property
    def idle(self) -> bool:
        """Whether nothing moves."""
        return self._moving is None and not self._queue

    def worker(self, instance: InstanceId) -> int:
        """The worker that an instance is at, or goes to."""
        return int(self._where[instance])

    def add(self, move: QueryMove) -> QueryMove:
        """Let instances move when it is their turn."""
        self._queue.append(move)
        self.begin()
        return move

    def begin(self) -> None:
        """Begin the next move if none is going on."""
        if self._moving is not None or not self._queue:
            return
        self._moving = move = self._queue.popleft()
        for place, instance in enumerate(move.instances):
            self._where[instance] = WorkerId(move.workers[place % len(move.workers)])
        move.request = self._run().rebind(Binding.of(self._where, self._workers), move.mechanism)

    def notice(self) -> None:
        """Take reports of the run; raises if a move was refused or given up."""
        run = self._run()
        if run.refused:
            raise RunError(f"{self._shown()}: {run.refused[0].reason}")
        for report in [each for each in run.finished if not any(each is seen for seen in self._seen)]:
            self._seen.append(report)
            self._take(report)
        self.begin()

    def _take(self, report: MovesFinished) -> None:
        move = self._moving
        if move is None or report.rebind != move.request:
            self.rescues += report.moves
            self._where |= {each.instance: each.target for each in report.moves}
            return
        if report.aborted:
            raise RunError(f"{self._shown()}: {report.aborted[0].aborted}")
        move.report, self._moving = report, None
        self.made.append(move)

    def _shown(self) -> str:
        task = None if self._moving is None else self._moving.task
        return "the placement of queries" if task is None else f"task {task.name} ({task.where})"

    def metrics(self) -> dict[str, float]:
        """What moves have cost in all, without those that placed queries, and what was lost."""
        reports = [each for move in self.made if not move.placing and move.report for each in move.report.moves]
        found: dict[str, float] = {}
        if reports:
            found = {
                "migration.moves": float(len(reports)),
                "migration.seconds": max(each.seconds or 0.0 for each in reports),
                "migration.active_s": max(each.active_s or 0.0 for each in reports),
                "migration.freeze_ms": 1e3 * max(each.frozen_s or 0.0 for each in reports),
                "migration.bytes": float(sum(each.state_bytes for each in reports)),
                "migration.late_results": float(sum(each.late_results or 0 for each in reports)),
                "migration.emission_delay_ms": 1e3 * max(each.emission_delay_s or 0.0 for each in reports),
                "migration.emission_delay_sum_ms": 1e3 * sum(each.emission_delay_sum_s or 0.0 for each in reports),
            }
        lost: list[LostState] = [each.lost for each in (*reports, *self.rescues) if each.lost is not None]
        if lost:
            found |= {
                "lost.fragments": float(sum(each.fragments for each in lost)),
                "lost.state_rows": float(sum(each.rows for each in lost)),
                "lost.bytes": float(sum(each.state_bytes for each in lost)),
            }
        return found
