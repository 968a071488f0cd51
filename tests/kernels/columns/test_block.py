"""Blocks: Arrow in, columns out, and back."""

import numpy as np
import pyarrow as pa
import pytest

from shoal.kernels.aggregate.cells import codes_of
from shoal.kernels.columns.block import ARROW_TYPES, Block, arrow_schema, as_arrow, as_column, concat, take
from shoal.model.query.schema import FIELD_TYPES, FieldType, Schema

EXAMPLES: dict[FieldType, list[object]] = {
    "int64": [1, -(2**63)],
    "float64": [0.5, float("inf")],
    "string": ["a", "ä"],
    "bool": [True, False],
    "timestamp": [-1, 2**50],
    "list<int64>": [[1, 2], []],
    "list<float64>": [[0.5], [1.5, 2.5]],
}


@pytest.mark.parametrize("type_", FIELD_TYPES)
def test_a_column_of_every_type_survives_a_round_trip_through_a_block(type_: FieldType) -> None:
    array = pa.array(EXAMPLES[type_], ARROW_TYPES[type_])
    assert as_arrow(as_column(array), ARROW_TYPES[type_]).equals(array)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_of_every_unit_and_zone_become_microseconds_since_1970(unit: str, zone: str | None) -> None:
    array = pa.array([0, 86_400], pa.timestamp("s")).cast(pa.timestamp(unit))
    zoned = array if zone is None else array.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, zone))
    assert as_column(zoned).tolist() == [0, 86_400_000_000]


def test_a_dictionary_that_holds_a_text_twice_gives_it_one_code() -> None:
    doubled = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1], pa.int32()), pa.array(["a", "b", "a"]))
    codes = codes_of(as_column(doubled))
    assert codes.codes[0] == codes.codes[2]
    assert codes.codes[1] == codes.codes[3] != codes.codes[0]


def test_a_dictionary_without_repetition_is_taken_as_it_is() -> None:
    array = pa.array(["a", "b", "a"]).dictionary_encode()
    assert as_column(array) is array


def test_a_mask_that_selects_all_rows_copies_nothing() -> None:
    block = Block({"n": np.arange(3)}, 3)
    assert block.where(np.ones(3, bool)) is block
    assert block.where(np.array([False, True, False])).columns["n"].tolist() == [1]
    assert block.where(np.zeros(3, bool)).length == 0


def test_texts_with_and_without_dictionary_are_concatenated() -> None:
    plain = pa.array(["a", "b"])
    assert concat([plain, plain.dictionary_encode(), plain[:0]]).to_pylist() == ["a", "b", "a", "b"]
    assert take(plain.dictionary_encode(), np.array([1, 1])).to_pylist() == ["b", "b"]


def test_rows_of_coded_texts_keep_the_dictionary() -> None:
    coded = pa.array(["x", "a", "b", None, "a"]).dictionary_encode()
    for part, rows, expected in [(coded[1:3], [1, 0, 1], ["b", "a", "b"]), (coded, [3, 0], [None, "x"])]:
        taken = take(part, np.array(rows))
        assert taken.to_pylist() == expected
        assert taken.type == coded.type
        assert taken.dictionary.equals(coded.dictionary)


def test_a_schema_in_arrow_has_its_columns_in_order() -> None:
    schema = Schema.of({"ts": "timestamp", "speed": "float64", "kind": "string"})
    assert arrow_schema(schema).names == ["ts", "speed", "kind"]
    assert arrow_schema(schema).types == [pa.timestamp("us"), pa.float64(), pa.string()]
