"""Queries as plain data: schemas, expressions, windows, aggregates, patterns, and the graph of operators.

In: what the languages build. Out: validated values with a canonical form, from which ids and programs follow.
"""
