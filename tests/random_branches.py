"""Branches: flows of a random graph, with what one must know to let them grow."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st
from tests.random_expressions import Draw

from shoal.language.python.flow import KEY_TYPES, WINDOW_END, WINDOW_START, Flow
from shoal.model.query.schema import TIME

MOST_EVENTS = 60
MOST_ROWS = 8000
"""Rows a branch may have at worst, so that a naive interpreter stays fast."""
SOFT = "v"
"""Names of columns whose last bits are a matter of method begin with this."""


class Unfit(Exception):  # noqa: N818  (no error: a draw that leads nowhere)
    """An operator does not fit the branch it was drawn for; another one may."""


@dataclass(frozen=True)
class Branch:
    """A flow without keys, the most rows it can have, and its columns that are never before the event time.

    At least one of its columns is hard.
    """

    flow: Flow
    rows: int
    due: frozenset[str] = frozenset()

    @property
    def types(self) -> Mapping[str, str]:
        """All columns."""
        return self.flow.schema.types

    @property
    def hard(self) -> Mapping[str, str]:
        """The columns that may decide something."""
        return {name: type_ for name, type_ in self.types.items() if not name.startswith(SOFT) and "list" not in type_}

    def keeping(self, names: Iterable[str]) -> "Branch":
        """The branch with some of its columns, in their order; the time column always stays."""
        wanted = set(names)
        kept = [name for name in self.types if name in wanted or name == self.flow.time]
        if not set(kept) & set(self.hard):
            raise Unfit
        flow = self.flow if len(kept) == len(self.types) else self.flow.select(*kept)
        return Branch(flow, self.rows, self.due & set(kept))

    def without(self, *names: str) -> "Branch":
        """The branch without some columns."""
        return self.keeping(name for name in self.types if name not in names)

    def hardened(self) -> "Branch":
        """The branch with nothing but columns that may decide something."""
        return self.keeping(self.hard)

    def then(self, flow: Flow, *, rows: int | None = None, due: Iterable[str] = ()) -> "Branch":
        """A longer branch."""
        return Branch(flow, self.rows if rows is None else rows, frozenset(due) & set(flow.schema.names))

    def of_at_most(self, rows: int) -> "Branch":
        """The branch itself, unless it may have more rows than that."""
        if self.rows > rows:
            raise Unfit
        return self

    def keyed(self, draw: Draw, least: int = 0) -> Flow:
        """The flow with random keys, of one or several key groups."""
        choices = [name for name, type_ in self.hard.items() if type_ in KEY_TYPES and name not in WINDOW_NAMES]
        choices.sort(key=lambda name: self.types[name] == "timestamp")
        if len(choices) < least:
            raise Unfit
        keys = draw(st.lists(st.sampled_from(choices), min_size=least, max_size=2, unique=True)) if choices else []
        if not keys:
            return self.flow
        groups = draw(st.sampled_from([0, 0, 1, 2, 5]))
        if not groups:
            return self.flow.key_by(*keys)
        partition = keys[: draw(st.integers(1, len(keys)))]
        return self.flow.partition_by(*partition, groups=groups).key_by(*keys)

    @property
    def has_own_time(self) -> bool:
        """Whether the event time is no column of the stream any more."""
        return self.flow.time == TIME


WINDOW_NAMES = (WINDOW_START, WINDOW_END)


def fresh(prefix: str, taken: Iterable[str]) -> str:
    """A name that no column has yet."""
    names = set(taken)
    return next(name for number in range(1000) if (name := f"{prefix}{number}") not in names)
