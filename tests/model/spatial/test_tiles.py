"""Layouts of tiles: they cover the grid exactly, and the walk finds the tiles that an area overlaps."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import PartitioningError
from shoal.model.spatial.tiles import Axis, Tile, halves, halvings, joined, overlapped, painted

COLUMNS, ROWS = 13, 9


@st.composite
def layouts(draw: st.DrawFn) -> dict[int, Tile]:
    """Tiles after random cuts, under random numbers."""
    tiles = [Tile(0, 0, COLUMNS, ROWS)]
    for _ in range(draw(st.integers(0, 12))):
        tile = tiles.pop(draw(st.integers(0, len(tiles) - 1)))
        axis: Axis = draw(st.sampled_from(get_args(Axis)))
        first, last = (tile.left, tile.right) if axis == "column" else (tile.top, tile.bottom)
        tiles += tile.cut(axis, draw(st.integers(first + 1, last - 1))) if last - first > 1 else [tile]
    numbers = draw(st.permutations(range(len(tiles))))
    return dict(zip(numbers, tiles, strict=True))


@st.composite
def areas(draw: st.DrawFn) -> Tile:
    left, top = draw(st.integers(0, COLUMNS - 1)), draw(st.integers(0, ROWS - 1))
    return Tile(left, top, draw(st.integers(left + 1, COLUMNS)), draw(st.integers(top + 1, ROWS)))


PINWHEEL = {0: Tile(0, 0, 9, 3), 1: Tile(9, 0, 13, 6), 2: Tile(4, 6, 13, 9), 3: Tile(0, 3, 4, 9), 4: Tile(4, 3, 9, 6)}


@given(layouts() | st.just(PINWHEEL), areas())
def test_the_walk_finds_the_tiles_of_all_cells_of_an_area_and_no_other(layout: dict[int, Tile], area: Tile) -> None:
    cells = painted(COLUMNS, ROWS, layout)
    inside = cells.reshape(ROWS, COLUMNS)[area.top : area.bottom, area.left : area.right]
    found = overlapped(COLUMNS, cells, layout, area)
    assert sorted(found) == np.unique(inside).tolist()


@given(layouts())
def test_cut_tiles_cover_every_cell_once(layout: dict[int, Tile]) -> None:
    counts = np.bincount(painted(COLUMNS, ROWS, layout), minlength=len(layout))
    assert counts.tolist() == [layout[number].cells for number in range(len(layout))]


@given(st.integers(1, COLUMNS * ROWS))
def test_halvings_give_as_many_parts_as_asked_and_cover_the_grid(parts: int) -> None:
    tiles = halvings(COLUMNS, ROWS, parts)
    assert len(tiles) == parts
    painted(COLUMNS, ROWS, dict(enumerate(tiles)))


@given(areas(), st.integers(1, 9))
def test_the_parts_of_a_tile_can_be_joined_again(tile: Tile, parts: int) -> None:
    if parts <= tile.cells:
        assert joined(halves(tile, parts)) == tile


@pytest.mark.parametrize(
    ("tiles", "message"),
    [
        pytest.param({0: Tile(0, 0, 2, 1), 1: Tile(1, 0, 3, 1)}, "tile 1 overlaps another", id="overlapping tiles"),
        pytest.param({0: Tile(0, 0, 4, 1)}, "tile 0 overlaps another, or is not within", id="a tile beyond the grid"),
        pytest.param({0: Tile(0, 0, 2, 1)}, "no tile has the cell in column 2 and row 0", id="a cell left out"),
    ],
)
def test_a_layout_that_does_not_cover_the_grid_exactly_is_refused(tiles: dict[int, Tile], message: str) -> None:
    with pytest.raises(PartitioningError, match=message):
        painted(3, 1, tiles)


def test_tiles_that_form_no_rectangle_are_not_joined() -> None:
    with pytest.raises(PartitioningError, match="form no rectangle"):
        joined([Tile(0, 0, 1, 1), Tile(1, 1, 2, 2)])
