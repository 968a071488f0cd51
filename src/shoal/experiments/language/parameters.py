"""Points: what `set`, `vary`, `points` and `small` say together.

`set` gives the same value to all points, `vary` makes a point of every combination, `points` names them one by one and
wins over `set`. `small` changes some of these for the small variant.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from shoal.experiments.experiment import Parameters, Scalar, Trial
from shoal.language.yaml.document import YamlPart

POINT_KEYS = ("set", "vary", "points", "repeat")
"""The keys that say what is run and how often; `small` has the same."""
MOST_POINTS = 10_000


@dataclass(frozen=True)
class PointSpec:
    """What an experiment, or its small variant, says about its points; a key that is not there is None."""

    set: Mapping[str, Scalar] = field(default_factory=dict)
    vary: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    points: tuple[Mapping[str, Scalar], ...] | None = None
    repeat: int | None = None

    @classmethod
    def of(cls, entries: Mapping[str, YamlPart]) -> "PointSpec":
        """What the entries of an experiment say; a name that gets its value twice is refused."""
        fixed = _values(entries["set"], "set") if "set" in entries else {}
        vary = {name: _several(part, name) for name, part in _named(entries, "vary").items()}
        points = None
        if "points" in entries:
            points = tuple(_values(item, "point") for item in entries["points"].items("points"))
            if not points:
                entries["points"].fail("points must have at least one point")
        for name in vary:
            if name in fixed:
                entries["vary"].fail(f"parameter {name!r} is in set and in vary; leave one of them out")
            if any(name in point for point in points or ()):
                entries["vary"].fail(f"parameter {name!r} is in points and in vary; leave one of them out")
        return cls(fixed, vary, points, _repeat(entries.get("repeat")))

    def changed(self, small: "PointSpec") -> "PointSpec":
        """The small variant: its values win, also over those of single points."""
        vary = {name: values for name, values in {**self.vary, **small.vary}.items() if name not in small.set}
        fixed = {name: value for name, value in {**self.set, **small.set}.items() if name not in vary}
        points = self.points if small.points is None else small.points
        if points is not None:
            points = tuple(
                {name: value for name, value in point.items() if name not in small.set and name not in small.vary}
                for point in points
            )
        return PointSpec(fixed, vary, points, self.repeat if small.repeat is None else small.repeat)

    def made(self, part: YamlPart) -> tuple[Parameters, ...]:
        """All points, each once; too many of them, and two with one name of a directory, are refused."""
        if (number := math.prod(map(len, self.vary.values())) * len(self.points or ({},))) > MOST_POINTS:
            part.fail(f"an experiment must have at most {MOST_POINTS:,} points; got {number:,}")
        found: dict[str, Parameters] = {}
        for point in self._combined():
            key = Trial("", "", point).key
            if key in found and found[key] != point:
                part.fail(f"two points must not have the same directory; got {key} for {found[key]} and {point}")
            found[key] = point
        return tuple(found.values())

    def _combined(self) -> Iterator[Parameters]:
        for point in self.points or ({},):
            for values in product(*self.vary.values()):
                yield {**self.set, **point, **dict(zip(self.vary, values, strict=True))}


def _named(entries: Mapping[str, YamlPart], key: str) -> dict[str, YamlPart]:
    return entries[key].entries(key) if key in entries else {}


def _values(part: YamlPart, what: str) -> dict[str, Scalar]:
    return {name: _scalar(value, f"parameter {name!r}") for name, value in part.entries(what).items()}


def _scalar(part: YamlPart, what: str) -> Scalar:
    value: Any = part.data()
    if not isinstance(value, str | int | float | bool | None):
        part.fail(f"{what} must be a text, a number, true, false or null; got {part.shown}")
    return value


def _several(part: YamlPart, name: str) -> tuple[Scalar, ...]:
    found = tuple(_scalar(item, f"a value of {name!r}") for item in part.items(f"vary of {name!r}"))
    if not found:
        part.fail(f"vary of {name!r} must have at least one value")
    if len({(type(each), each) for each in found}) < len(found):
        part.fail(f"vary of {name!r} has a value twice; got {part.shown}")
    return found


def _repeat(part: YamlPart | None) -> int | None:
    if part is None:
        return None
    number = part.number("repeat")
    if number < 1:
        part.fail(f"repeat must be at least 1; got {number}")
    return number
