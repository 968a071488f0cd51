"""Queries in SQL: standard SQL with Flink's windows, watermarks and row patterns.

In: a text and the streams it may read. Out: a script of streams, queries and tables, or a `SqlError` with line and
column. sqlglot parses; this package translates its syntax trees into flows.
"""
