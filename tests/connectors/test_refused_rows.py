"""Dead letters counted by stream, reason and column."""

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from shoal.connectors.admission import DEAD_LETTER_SCHEMA
from shoal.connectors.refused_rows import refused_rows

NAMES = st.sampled_from(["", "a", "b"])
LETTERS = st.lists(st.tuples(NAMES, NAMES, NAMES, st.text(max_size=3)), max_size=30)


@given(st.lists(LETTERS, max_size=4))
def test_every_kind_is_counted_once_with_its_first_letter(parts: list[list[tuple[str, str, str, str]]]) -> None:
    batches = [
        pa.RecordBatch.from_pylist(
            [
                dict(zip(DEAD_LETTER_SCHEMA.names, (*kind, f"{row}!", f"at {row}", row), strict=True))
                for *kind, row in part
            ],
            DEAD_LETTER_SCHEMA,
        )
        for part in parts
    ]
    letters = [letter for part in parts for letter in part]
    found = refused_rows(batches)
    assert {(each.stream, each.reason, each.column): each.rows for each in found} == Counter(
        (stream, reason, column) for stream, reason, column, _ in letters
    )
    for each in found:
        first = next(row for *kind, row in letters if kind == [each.stream, each.reason, each.column])
        assert (each.detail, each.place, each.row) == (f"{first}!", f"at {first}", first)
