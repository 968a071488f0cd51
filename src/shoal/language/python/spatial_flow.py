"""The methods of flows that go by place: cells, versions, and ranges that contain points."""

from typing import TYPE_CHECKING

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
        a null or NaN coordinate lie nowhere and are dropped.
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
