"""The wire: the one row format that crosses Spark, for all queries.

A row is (worker, lane, payload). Addresses from 0 up carry a table of a lane's partial aggregates or rows as Arrow;
negative addresses carry everything else. With one schema, queries can change without a new Spark plan.
"""

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

HEADER = -1
"""What a reading task found in its slice, sent to every worker."""
DEAD = -2
"""Refused rows."""
RESULT = -3
"""Rows of a result table; the table's name is in the Arrow metadata."""
REPORT = -4
"""What a worker did: its state segments and its measurements."""

SCHEMA = StructType(
    [StructField("worker", IntegerType()), StructField("lane", IntegerType()), StructField("payload", BinaryType())]
)
ARROW_SCHEMA = pa.schema([("worker", pa.int32()), ("lane", pa.int32()), ("payload", pa.binary())])
TABLE = b"table"
TABLES = 8
"""The most tables that the state of a lane can have."""


def address(lane: int, table: int) -> int:
    """The lane column of a row that carries rows of a table of a lane's state."""
    return lane * TABLES + table


def lane_and_table(address_: int) -> tuple[int, int]:
    """The inverse of `address`."""
    return divmod(address_, TABLES)


def rows(items: list[tuple[int, int, bytes]]) -> pa.RecordBatch:
    """Wire rows as the batch Spark carries."""
    workers, lanes, payloads = zip(*items, strict=True) if items else ((), (), ())
    arrays = [pa.array(workers, pa.int32()), pa.array(lanes, pa.int32()), pa.array(payloads, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def pack(batch: pa.RecordBatch, table: str = "") -> bytes:
    """An Arrow batch as a payload, with the name of a result table if it has one."""
    schema = batch.schema.with_metadata({TABLE: table.encode()}) if table else batch.schema
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    return sink.getvalue().to_pybytes()


def unpack(payload: bytes) -> pa.RecordBatch:
    """The Arrow batch of a payload."""
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_next_batch()


def table_of(batch: pa.RecordBatch) -> str:
    """The result table a batch belongs to."""
    return (batch.schema.metadata or {}).get(TABLE, b"").decode()
