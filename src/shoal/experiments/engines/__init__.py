"""Engines: stream processors, and a database for the right answer, behind one protocol (`contract.py`).

In: a job of streams and queries, then rows. Out: results, while rows arrive or at the end. `catalog.py` has
them by name.
"""
