"""The methods of flows that go by place: cells, versions, ranges that contain points, and pairs that are close."""

from typing import TYPE_CHECKING

from shoal.model.query.duration import Duration
from shoal.model.query.expression import Expression
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import Shape, point

if TYPE_CHECKING:
    from shoal.language.python.flow import Flow


class SpatialFlow:
    """What a flow can do with places; `Flow` is the only subclass."""

    def cover(self: "Flow", grid: Grid, shape: Shape, *, column: str = "cell") -> "Flow":  # type: ignore[misc]
        """Add the cell of a grid that each point lies in; a range becomes one row for each cell that it overlaps.

        The cell is a number, counted row by row from (min_x, min_y), and may be a key like any other column. Rows with
        a null or NaN coordinate, and points with an infinite longitude, lie nowhere and are dropped.
        """
        from shoal.language.python.spatial import covering

        return covering(self, grid, shape, column)

    def versions(  # type: ignore[misc]
        self: "Flow", *, action: str | None = None, deleted: str = "delete", since: str = "since", until: str = "until"
    ) -> "Flow":
        """Turn inserts, updates and deletes of keyed rows into versions: when each began, and when it ended.

        A row is a new version of its key, which ends the one before; if the column `action` holds `deleted`, it only
        ends it. The result has a row when a version begins, with a null in `until`, and another when it ends.
        """
        from shoal.language.python.spatial import versioned

        return versioned(self, action, deleted, since, until)

    def match_ranges(  # type: ignore[misc]
        self: "Flow",
        ranges: "Flow",
        shape: Shape,
        *,
        grid: Grid,
        at: tuple[str, str] = ("x", "y"),
        id: str | None = None,  # noqa: A002  (as in the data)
        action: str | None = None,
        deleted: str = "delete",
        where: Expression | None = None,
        suffix: str = "_range",
        partitions: int = 1,
    ) -> "Flow":
        """Pair every point of this flow with the ranges of another one that contain it at its time.

        `shape` names the columns of a range: `rectangle(...)`, `circle(...)` or `polygon(...)`. With an `id`, a row is
        a new version of its range, or deletes it if `action` holds `deleted`: a point at time t is compared with the
        version of time t. Without an `id` every row is a range of its own, from its time on. `at`: the coordinates of a
        point. The cells of the `grid` are divided into rectangular `partitions`, which are bound to workers, split and
        merged; that changes no result. `where`: a further condition on the joined row. Columns of ranges whose names
        clash get the suffix.
        """
        from shoal.language.python.spatial import RangeTerms, matching

        terms = RangeTerms(grid, point(*at), shape, where, suffix, partitions)
        return matching(self, ranges, terms, id, action, deleted)

    def geofence(  # type: ignore[misc]
        self: "Flow",
        fences: "Flow",
        shape: Shape,
        *,
        object: str,  # noqa: A002  (as in the data)
        id: str,  # noqa: A002
        grid: Grid,
        at: tuple[str, str] = ("x", "y"),
        action: str | None = None,
        deleted: str = "delete",
        dwell_s: Duration | None = None,
        partitions: int = 1,
    ) -> "Flow":
        """Say when objects enter fences, stay in them and leave them.

        Fences are ranges with an `id`, which may change as in `match_ranges`. The result has `object`, `id`, `event`,
        when it `happened`, and when the object had `entered`. An object enters at its first point inside, and leaves at
        its first point that is not: outside, or after the fence has been deleted or moved. With `dwell_s` an object
        dwells once in each stay, at its first point inside that is at least that long after the enter. Points of one
        object and time count as one, which is in all fences that any of them is in. Points without coordinates do not
        count.
        """
        from shoal.language.python.fences import SUFFIX, FenceTerms, geofenced
        from shoal.language.python.spatial import RangeTerms

        ranges = RangeTerms(grid, point(*at), shape, None, SUFFIX, partitions)
        return geofenced(self, fences, ranges, FenceTerms(object, id, action, deleted, dwell_s))

    def near(  # type: ignore[misc]
        self: "Flow",
        other: "Flow",
        *,
        within: float,
        within_s: tuple[Duration, Duration],
        grid: Grid,
        at: tuple[str, str] = ("x", "y"),
        other_at: tuple[str, str] | None = None,
        column: str = "distance",
        where: Expression | None = None,
        suffix: str = "_right",
        groups: int = 1,
    ) -> "Flow":
        """Pair points of two flows that are at most `within` apart, in space, and close in time.

        The other's time lies between `within_s` seconds after this one's. `within` and the added `column` are in the
        unit of the coordinates, or in metres if the grid is in degrees. `at` and `other_at`: the coordinates of both
        points; `other_at` is `at` unless given. A flow may be paired with itself: every point is then paired with
        itself too, and every two points both ways; `where=col("car") < col("car_right")` keeps one pair of two cars.
        Columns of the other flow whose names clash get the suffix. The cells of the `grid` are divided into key
        `groups`; neither changes a result.
        """
        from shoal.language.python.nearby import PairTerms, near

        terms = PairTerms(grid, within_s, where, suffix, groups)
        return near(self, other, (at, other_at or at), within, column, terms)

    def points_in(  # type: ignore[misc]
        self: "Flow",
        points: "Flow",
        shape: Shape,
        *,
        last_s: Duration,
        grid: Grid,
        at: tuple[str, str] = ("x", "y"),
        where: Expression | None = None,
        suffix: str = "_point",
        groups: int = 1,
    ) -> "Flow":
        """Give every query of this flow the recent points of another that its range contains.

        A query asks once, at its time: for points that are at most `last_s` seconds older, and not younger. `shape`
        names the columns of its range: `rectangle(...)`, `circle(...)` or `polygon(...)`. Columns of points whose names
        clash get the suffix.
        """
        from shoal.language.python.nearby import PairTerms, points_in

        terms = PairTerms(grid, (self.duration_us(last_s, "points_in") / -1e6, 0), where, suffix, groups)
        return points_in(self, points, shape, at, terms)

    def nearest(  # type: ignore[misc]
        self: "Flow",
        points: "Flow",
        k: int,
        *,
        within: float,
        last_s: Duration,
        id: str,  # noqa: A002  (as in the data)
        grid: Grid,
        at: tuple[str, str] = ("x", "y"),
        points_at: tuple[str, str] | None = None,
        suffix: str = "_point",
        groups: int = 1,
    ) -> "Flow":
        """Give every query of this flow the k nearest of the recent points within a distance, with `rank` from 1.

        A query asks once, at its time, for points that are at most `last_s` seconds older, and not younger. `id` tells
        queries of the same time apart. Points at the same distance are taken in the order of their columns.
        """
        from shoal.language.python.nearby import nearest

        last = self.duration_us(last_s, "nearest") / -1e6
        pairs = self.near(
            points,
            within=within,
            within_s=(last, 0),
            grid=grid,
            at=at,
            other_at=points_at,
            suffix=suffix,
            groups=groups,
        )
        return nearest(pairs, k, id)
