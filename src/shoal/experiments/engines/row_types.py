"""Rows on their way into engines and out of them: the declared columns in, plain Arrow types out."""

import pyarrow as pa

from shoal.errors import RunError
from shoal.experiments.engines.contract import EngineJob
from shoal.kernels.columns.block import arrow_schema
from shoal.language.yaml.definitions import StreamDefinition
from shoal.model.query.schema import Schema


def columns_of(definition: StreamDefinition) -> pa.Schema:
    """The Arrow schema of a declared stream."""
    return arrow_schema(Schema.of(definition.columns))


def declared_rows(engine: str, job: EngineJob, stream: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that the stream declares, in its order and of its types; an error if they are not there."""
    definition = job.streams.get(stream)
    if definition is None:
        known = ", ".join(job.streams) or "none"
        raise RunError(f"{engine} has no input stream {stream!r}; there are {known}")
    wanted = columns_of(definition)
    if rows.schema.equals(wanted):
        return rows
    if missing := [name for name in wanted.names if name not in rows.schema.names]:
        got = ", ".join(rows.schema.names)
        raise RunError(
            f"rows of stream {stream!r} must have the columns {', '.join(wanted.names)}; got {got}: "
            f"{missing[0]!r} is missing"
        )
    try:
        columns = [rows.column(field.name).cast(field.type) for field in wanted]
    except pa.ArrowInvalid as error:
        raise RunError(f"rows of stream {stream!r} must have the types that it declares; got: {error}") from error
    nullable = pa.schema([field.with_nullable(True) for field in wanted])
    return pa.RecordBatch.from_arrays(columns, schema=nullable)


def plain_results(table: pa.Table) -> pa.Table:
    """Results with types that all engines share: int64, float64, text, booleans, and microseconds in UTC.

    >>> from decimal import Decimal
    >>> plain_results(pa.table({"n": pa.array([Decimal(7)])})).schema.field("n").type
    DataType(int64)
    """
    fields = [pa.field(field.name, _plain_type(field.type)) for field in table.schema]
    columns = [column.cast(field.type) for column, field in zip(table.columns, fields, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(type_) or (pa.types.is_decimal(type_) and type_.scale == 0):
        return pa.int64()
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return pa.float64()
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us")
    if pa.types.is_dictionary(type_):
        return _plain_type(type_.value_type)
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    return type_
