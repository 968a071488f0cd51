"""Parts of tables: every row goes to the part of its instance, and keeps its order."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.aggregate.panes import PaneTable
from shoal.kernels.columns.parts import MANY_PARTS, assigned, renumbered, split_tables, table_from_arrow
from shoal.kernels.columns.table import INSTANCE, RowTable, Tables

INSTANCES = 4


def tables_of(instances: list[int]) -> Tables:
    instance, rows = np.array(instances, np.int64), np.arange(len(instances))
    panes = PaneTable(instance, rows, (pa.array([str(row) for row in rows]),), (rows + 1,))
    return {0: panes, 2: RowTable({INSTANCE: instance, "row": rows})}


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.integers(0, INSTANCES - 1), max_size=20),
    st.lists(st.integers(-1, 2), min_size=INSTANCES, max_size=INSTANCES),
    st.sampled_from([3, MANY_PARTS + 1]),
)
def test_rows_go_to_the_part_of_their_instance_in_order(instances: list[int], part_of: list[int], parts: int) -> None:
    found = split_tables(tables_of(instances), part_of, parts)
    assert len(found) == parts
    for part, tables in enumerate(found[:3]):
        wanted = [row for row, instance in enumerate(instances) if part_of[instance] == part]
        assert set(tables) == ({0, 2} if wanted else set())
        if wanted:
            assert tables[0].pane.tolist() == tables[2]["row"].tolist() == wanted
            assert tables[2].instance.tolist() == [instances[row] for row in wanted]
    assert not any(found[3:])


def test_a_table_that_stays_whole_is_not_copied() -> None:
    tables = tables_of([1, 2, 1])
    assert split_tables(tables, [0, 1, 1, 0], 2) == [{}, {0: tables[0], 2: tables[2]}]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, INSTANCES - 1), max_size=20),
    st.lists(st.integers(-1, 9), min_size=INSTANCES, max_size=INSTANCES),
)
def test_rows_of_instances_with_a_number_are_under_that_number(instances: list[int], number_of: list[int]) -> None:
    wanted = [(row, number_of[each]) for row, each in enumerate(instances) if number_of[each] >= 0]
    for table in tables_of(instances).values():
        taken = renumbered(table, np.array(number_of))
        again = assigned(table, np.array([number_of[each] for each in instances], np.int64))
        assert taken.instance.tolist() == again.instance.tolist() == [number for _, number in wanted]
        assert taken.to_arrow().column(1).to_pylist() == [row for row, _ in wanted]


def test_events_are_counted_behind_rows() -> None:
    tables = tables_of([1, 3, 1])
    assert tables[0].events(INSTANCES).tolist() == [0, 1 + 3, 0, 2]
    assert tables[2].events(INSTANCES).tolist() == [0, 2, 0, 1]


def test_an_owned_table_does_not_see_what_is_written_to_shared_memory() -> None:
    shared = np.arange(4)
    owned = RowTable({INSTANCE: shared[:2], "x": shared[2:], "text": pa.array(["a", "b"])}).owned()
    shared[:] = 9
    assert owned.instance.tolist() == [0, 1]
    assert owned["x"].tolist() == [2, 3]


def test_every_kind_of_table_comes_back_from_arrow_as_it_was() -> None:
    for table in tables_of([0, 2]).values():
        arrived = table_from_arrow(table.to_arrow())
        assert type(arrived) is type(table)
        assert arrived.to_arrow().equals(table.to_arrow())
