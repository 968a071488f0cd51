"""Schemas: names, types and nothing twice."""

import pytest

from shoal.errors import SchemaError
from shoal.model.query.schema import FIELD_TYPES, Schema


def test_a_schema_is_the_same_after_a_journey_through_plain_data() -> None:
    schema = Schema.of({f"c{i}": type_ for i, type_ in enumerate(FIELD_TYPES)})
    assert Schema.of(schema.as_dict()) == schema
    assert "c0" in schema
    assert "other" not in schema


@pytest.mark.parametrize(
    ("types", "message"),
    [
        pytest.param({}, "a schema must have at least one column", id="no columns"),
        pytest.param({"a b": "int64"}, "column name must be an identifier; got 'a b'", id="a name with a space"),
        pytest.param(
            {"#instance": "int64"}, "column name must be an identifier; got '#instance'", id="a kernel's name"
        ),
        pytest.param(
            {"a": "int32"},
            "column 'a' must have one of the types int64, float64, string, bool, timestamp, list<int64>, "
            "list<float64>; got 'int32'",
            id="an unknown type",
        ),
    ],
)
def test_a_wrong_schema_cannot_be_built(types: dict[str, str], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.of(types)
    assert str(caught.value) == message


def test_a_column_cannot_be_declared_twice() -> None:
    field = Schema.of({"a": "int64"}).fields[0]
    with pytest.raises(SchemaError, match=r"^column 'a' is declared twice$"):
        Schema((field, field))


def test_the_type_of_an_unknown_column_is_an_error_that_names_the_others() -> None:
    with pytest.raises(SchemaError, match=r"^unknown column 'c'; there are a, b$"):
        Schema.of({"a": "int64", "b": "bool"}).type_of("c")
