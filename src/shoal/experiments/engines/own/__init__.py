"""Shoal's own runtimes as engines.

In: a job of streams and queries, in SQL or as graphs, and rows that a caller pushes. Out: results as a run emits them.
"""
