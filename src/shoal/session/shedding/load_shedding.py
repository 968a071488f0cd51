"""Load shedding of a run: connects the decision when to shed with the runtime and the journal."""

import logging
from collections.abc import Callable, Iterable

from shoal.control.journal import Entry, SheddingBegun, SheddingEnded
from shoal.control.overload import Overload
from shoal.control.reaction import Reaction
from shoal.model.control.messages import Command, EpochCommitted, RunEnded
from shoal.model.control.shedding import Shedding
from shoal.model.query.graph import Graph
from shoal.session.shedding.bounds import warnings

LOG = logging.getLogger("shoal")


class LoadShedding:
    """Begins and ends shedding by the reports of a run, and keeps when and why; used by one thread."""

    def __init__(
        self,
        shedding: Shedding,
        graph: Graph,
        apply: Callable[[Command], None],
        note: Callable[[Iterable[Entry]], None] | None,
    ) -> None:
        """Warn of results that will have no bound.

        `apply` gives a command to the runtime, `note` an entry to the journal, if there is one.
        """
        for text in warnings(shedding, graph):
            LOG.warning("%s", text)
        self.shedding = shedding
        self.entries: list[SheddingBegun | SheddingEnded] = []
        self._overload = Overload(shedding)
        self._apply, self._note, self._epoch = apply, note, -1

    def take(self, event: EpochCommitted | RunEnded) -> None:
        """React to a report, or to the end of the run."""
        if isinstance(event, RunEnded):
            self._carry_out(self._overload.ended(event.at_s, self._epoch))
            return
        self._epoch = event.epoch
        self._carry_out(self._overload.handle(event))

    def _carry_out(self, reaction: Reaction) -> None:
        for command in reaction.commands:
            self._apply(command)
        for entry in reaction.entries:
            if isinstance(entry, SheddingBegun):
                LOG.warning("shedding input (%s): %s", entry.shedding, entry.reason)
            if isinstance(entry, SheddingBegun | SheddingEnded):
                self.entries.append(entry)
        if self._note is not None:
            self._note(reaction.entries)
