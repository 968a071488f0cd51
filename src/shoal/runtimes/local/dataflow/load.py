"""Loads: what the instances of a lane's part take in, cost and answer.

The time of a turn is divided among the instances that had anything to do in it. Where there was one, it is exact.
Where there were several, each has a share by its rows (those that came, those they were brought to, and those
answered) and by its meetings: rows that came times the rows they met. Work on windows goes with the rows, that of joins
and patterns with the meetings. How much one of each costs is found by least squares over the lane's own turns.
"""

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.table import Tables
from shoal.kernels.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
KEPT = 0.99
"""What a turn counts for at the next one: prices are those of about the last hundred turns."""
SMALLEST = 1e-9
"""Rows and meetings that go together so closely cannot be told apart."""


class Prices:
    """What a row and a meeting cost, learned from turns; never less than nothing."""

    def __init__(self) -> None:
        """Nothing is known yet, so that a row costs something and a meeting nothing."""
        self.row_s = 1.0
        self.meeting_s = 0.0
        self._squares = np.zeros((2, 2))
        self._products = np.zeros(2)

    def learn(self, rows: float, meetings: float, cost_s: float) -> None:
        """Take a turn into account."""
        turn = np.array([rows, meetings])
        self._squares = KEPT * self._squares + np.outer(turn, turn)
        self._products = KEPT * self._products + turn * cost_s
        (of_rows, mixed), (_, of_meetings) = self._squares
        left = of_rows * of_meetings - mixed * mixed
        if left > SMALLEST * of_rows * of_meetings:
            row_s = (self._products[0] * of_meetings - self._products[1] * mixed) / left
            meeting_s = (self._products[1] * of_rows - self._products[0] * mixed) / left
            if row_s >= 0 and meeting_s >= 0:
                self.row_s, self.meeting_s = float(row_s), float(meeting_s)
                return
            if row_s < 0 <= meeting_s:
                self.row_s, self.meeting_s = 0.0, float(self._products[1] / of_meetings)
                return
        if of_rows > 0:
            self.row_s, self.meeting_s = float(self._products[0] / of_rows), 0.0


class Load:
    """The books of one part; who runs the part writes them, anybody may read.

    `events`, `results` and `cost_s` are sums per instance since the beginning, `rows` those of its state now.
    `relabelled` is how many more rows came to it than splits had labelled with it, because instances were split or
    merged while the rows were on their way.
    """

    def __init__(self, instances: int) -> None:
        """Nothing has happened."""
        self.size = instances
        self.events = np.zeros(instances, np.int64)
        self.relabelled = np.zeros(instances, np.int64)
        self.results = np.zeros(instances, np.int64)
        self.cost_s = np.zeros(instances)
        self.rows = np.zeros(instances, np.int64)
        self.prices = Prices()
        self._taken = np.zeros(instances, np.int64)
        self._answered = np.zeros(instances, np.int64)
        self._touched = np.zeros(instances, np.int64)
        self._meetings = np.zeros(instances)
        self._worked = False
        count(self.events[:0], self._taken)  # so that its machine code is there in time

    def take(self, instances: Ints) -> None:
        """Rows come in, of these instances."""
        self._worked = True
        count(instances, self._taken)

    def relabel(self, before: Ints, after: Ints) -> None:
        """Rows that come in labelled with some instances are of others."""
        self.relabelled += np.bincount(after, minlength=self.size) - np.bincount(before, minlength=self.size)

    def bring(self, fresh: Ints, kept: Ints, answers: Ints) -> None:
        """So many rows per instance are brought to so many of its state; the answers are of these instances."""
        self._worked = True
        touched = fresh + kept
        self._touched += touched
        self._meetings += fresh.astype(np.float64) * touched
        if answers.size:
            count(answers, self._answered)

    def charge(self, cost_s: float) -> None:
        """Divide the time of a turn."""
        if not self._worked:
            return
        rows = self._taken + self._touched + self._answered
        self.prices.learn(float(rows.sum()), float(self._meetings.sum()), cost_s)
        weight = self.prices.row_s * rows + self.prices.meeting_s * self._meetings
        if not weight.any():
            weight = rows.astype(np.float64)
        total = float(weight.sum())
        if total > 0:
            self.cost_s += weight * (cost_s / total)
        self.note()

    def note(self) -> None:
        """Write down what came and was answered, whatever it cost."""
        self.events += self._taken
        self.results += self._answered
        for books in (self._taken, self._answered, self._touched, self._meetings):
            books[:] = 0
        self._worked = False


def per_instance(tables: Tables, counts: Ints) -> Ints:
    """Add the rows of some tables to those counted per instance."""
    for table in tables.values():
        count(table.instance, counts)
    return counts


@compiled
def count(instances: Ints, counts: Ints) -> None:
    """Count the rows of every instance."""
    for i in range(instances.size):
        counts[instances[i]] += 1
