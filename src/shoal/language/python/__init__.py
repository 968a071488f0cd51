"""Queries in Python: a `Stream`, and the methods of `Flow` that append one operator each.

In: calls by the user, or by another language. Out: a `Query`. `replay` goes back from operators to calls.
"""
