"""Scheduling policies of the local runtime: which operator a free worker runs next, and how many events it takes.

Measured costs of operators and the candidates of a turn come in; priorities and the next turn go out. Policies are pure
values: they keep no state, read no clock and know nothing of threads. `catalog` lists them by name.
"""
