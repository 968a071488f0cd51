"""All mechanisms in one random migration: what is known of it before, and what each costs."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from measures.migration.link_scenario import HORIZON_S, LinkScenario, Rows, watermark_us
from measures.migration.link_trial import LinkTrial
from shoal.control.twin.prediction import Prediction
from shoal.control.twin.profile import Endpoint, MigrationProfile
from shoal.kernels.kernel import State
from shoal.mechanisms.shedding.capacity import TransferLink
from shoal.model.control.fragment import Ids
from shoal.runtimes.migration.state_copy import StateCopy


def keys_in_all(seen: Ids) -> float:
    """How many keys there are if these have rows: with those that were not seen, by the estimator Chao 1."""
    _, times = np.unique(seen, return_counts=True)
    once, twice = int((times == 1).sum()), int((times == 2).sum())
    return max(1.0, times.size + once * (once - 1) / (2 * (twice + 1)))


class LinkTrials:
    """All mechanisms in one scenario; the rows and the state at time 0 are the same for all."""

    def __init__(self, scenario: LinkScenario) -> None:
        """Process the rows from before, then all others without a migration, to know when results are due."""
        self.scenario, self.kernel, self.rows = scenario, scenario.kernel(), Rows.of(scenario)
        self.replica: StateCopy | None = None
        self.due_at: Mapping[float, list[int]] = {}
        self.replica_age_s = self.per_event = 0.0
        state = self.kernel.open()
        before = np.flatnonzero(self.rows.at_s < 0)
        parts = np.split(before, [before.size // 2, before.size * 4 // 5])
        for number, part in enumerate(parts):
            for port in (0, 1):
                chosen = part[self.rows.port[part] == port]
                if chosen.size:
                    self.kernel.process(state, self.rows.block(chosen), port)
            newest_s = float(self.rows.at_s[part].max(initial=-2 * scenario.size_s))
            results = self.kernel.close_until(state, watermark_us(min(0.0, newest_s)))
            self.per_event += results.length / max(1, parts[1].size + parts[2].size) if number else 0.0
            if number == 1:
                self.replica, self.replica_age_s = StateCopy.of(self.kernel, state), -newest_s
        self.kernel.close_until(state, watermark_us(0.0))
        self.state = state
        self.fragments = self.kernel.fragments(state)
        self.link = TransferLink(max(1.0, self.fragments.total_bytes / scenario.transfer_s), scenario.latency_s)
        undisturbed = self._trial()
        undisturbed.run()
        self.due = undisturbed.emitted
        due_at = defaultdict[float, list[int]](list)
        for each, times_s in self.due.items():
            for at_s in times_s:
                due_at[at_s].append(each)
        self.due_at = due_at

    @property
    def row_bytes(self) -> float:
        """The size of a row, as large as a part of the state."""
        return self.fragments.total_bytes / max(1, len(self.fragments))

    def _trial(self) -> LinkTrial:
        state = State(dict(self.state.tables), self.state.watermark_us)
        return LinkTrial(self.scenario, self.kernel, self.rows, state, self.link, self.due_at)

    def profile(self) -> MigrationProfile:
        """What is known at time 0: the state, and the rows so far."""
        scenario, kernel = self.scenario, self.kernel
        past = np.flatnonzero(self.rows.at_s < 0).astype(np.int64)
        seen, at_s = kernel.row_keys(0, self.rows.block(past)), self.rows.at_s[past]
        keys = np.unique(self.fragments.key)
        known = np.isin(seen, keys)
        counts = np.bincount(np.searchsorted(keys, seen[known]), minlength=keys.size)
        # keys have state because they had rows lately: how many rows others have is seen in the time before
        lifetime_s = scenario.lifetime_s
        others = seen[~known & (at_s < -lifetime_s)]
        rate = past.size / (2 * scenario.size_s)
        new_rate = min(others.size / (2 * scenario.size_s - lifetime_s), rate)
        rates = counts * ((rate - new_rate) / max(1, counts.sum()))
        per_event, row_bytes = 0.0 if scenario.slide_s else self.per_event, self.row_bytes
        return MigrationProfile(
            self.fragments,
            rates,
            self.link,
            watermark_us=watermark_us(0.0),
            new_rate=new_rate,
            new_keys=keys_in_all(others),
            event_cost_s=scenario.loads[0] / scenario.rate,
            event_bytes=row_bytes,
            slide_s=scenario.slide_s,
            results_per_event=per_event,
            rewrites=scenario.operator == "windows",
            renews=scenario.operator == "deduplicate",
            lifetime_s=lifetime_s,
            new_bytes=row_bytes * (1.0 if kernel.on_arrival else per_event),
            on_arrival=kernel.on_arrival,
            bounded=kernel.bounded,
            replicated=scenario.replicated,
            replica_age_s=self.replica_age_s,
            left_s=scenario.left_s,
            target=Endpoint(scenario.loads[0] / scenario.loads[1]),
            horizon_s=HORIZON_S,
        )

    def measured(self, mechanism: str) -> Prediction:
        """Make the migration; raises a `MechanismError` if the mechanism cannot."""
        trial = self._trial()
        trial.begin(mechanism, self.replica if self.scenario.replicated else None)
        trial.run()
        end_s = HORIZON_S if trial.end_s is None else trial.end_s
        delay_s, late = self._emission(trial.emitted)
        return Prediction(
            mechanism,
            latency_s=trial.waited_s,
            emission_s=delay_s,
            late_results=late,
            seconds=end_s,
            sent_bytes=trial.sent + trial.duplicates * self.row_bytes,
            lost=trial.lost,
        )

    def _emission(self, emitted: dict[int, list[float]]) -> tuple[float, int]:
        """By how much results were late in sum, and how many; those that were lost are counted elsewhere."""
        delay_s, late = 0.0, 0
        for each, due in self.due.items():
            for due_s, at_s in zip(sorted(due), sorted(emitted.get(each, ())), strict=False):
                if at_s > due_s + 1e-9:
                    delay_s, late = delay_s + at_s - due_s, late + 1
        return delay_s, late
