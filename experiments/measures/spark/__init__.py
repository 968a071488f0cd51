"""Measurements on Spark: Shoal beside plain Structured Streaming and DuckDB, over the same Parquet files."""
