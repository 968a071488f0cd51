"""Courses: the maps of one spatial operator over the time of a run, from its journal."""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.control.journal import Begun, Entry, Mapped, TileLoad
from shoal.errors import ConfigError


@dataclass(frozen=True)
class Course:
    """The maps of an operator, oldest first; times count from the beginning of the run."""

    policy: str
    runtime: str
    began_s: float
    maps: tuple[Mapped, ...]

    @property
    def query(self) -> str:
        """The queries that the operator is part of."""
        return ", ".join(self.maps[0].queries)

    def seconds(self) -> list[float]:
        """When each map was made."""
        return [each.at_s - self.began_s for each in self.maps]

    def rates(self) -> list[float]:
        """Events per second of all tiles, in the period of each map."""
        return [sum(tile.events for tile in each.tiles) / max(each.period_s, 1e-9) for each in self.maps]

    def peaks(self) -> list[float]:
        """The work of the busiest worker in the period of each map, as a multiple of the mean."""
        return [peak(each) for each in self.maps]


def peak(map_: Mapped) -> float:
    """The work of the busiest worker as a multiple of the mean; 1 if there was no work."""
    worked_s: dict[int, float] = {}
    for tile in map_.tiles:
        worked_s[tile.worker] = worked_s.get(tile.worker, 0.0) + tile.cost_s
    workers = 1 + max(worked_s)
    total_s = sum(worked_s.values())
    return max(worked_s.values()) * workers / total_s if total_s > 0 else 1.0


def shares(map_: Mapped) -> list[float]:
    """The share of each tile in the work of all."""
    total_s = sum(tile.cost_s for tile in map_.tiles)
    return [tile.cost_s / total_s if total_s > 0 else 0.0 for tile in map_.tiles]


def borders(map_: Mapped, tile: TileLoad) -> tuple[float, float, float, float]:
    """The rectangle of a tile in the coordinates of the space: min_x, min_y, max_x, max_y."""
    min_x, min_y, max_x, max_y = map_.space
    columns, rows = map_.cells
    wide, high = (max_x - min_x) / columns, (max_y - min_y) / rows
    return (
        min_x + tile.left * wide,
        min_y + tile.top * high,
        min_x + tile.right * wide,
        min_y + tile.bottom * high,
    )


def course_of(entries: Sequence[Entry], directory: str, query: str | None = None) -> Course:
    """The course of the last run in a journal; `query` chooses an operator where there are several."""
    begun = [place for place, entry in enumerate(entries) if isinstance(entry, Begun)]
    start = entries[begun[-1]] if begun else None
    maps = [entry for entry in entries[begun[-1] if begun else 0 :] if isinstance(entry, Mapped)]
    if not isinstance(start, Begun) or not maps:
        raise ConfigError(f"the run in {directory} has no map; only runs with match_ranges and a journal have maps")
    named = {each.operator: each.queries for each in maps}
    chosen = [operator for operator, queries in named.items() if query is None or query in queries]
    if len(chosen) != 1:
        known = ", ".join(sorted({name for queries in named.values() for name in queries}))
        given = "several spatial operators" if query is None else f"no map of query {query!r}"
        raise ConfigError(f"the run in {directory} has {given}; choose one with --query: {known}")
    return Course(start.policy, start.runtime, start.at_s, tuple(each for each in maps if each.operator == chosen[0]))
