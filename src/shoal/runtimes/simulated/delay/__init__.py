"""Delay models: what the work of a task costs in seconds, by events, results and bytes of state.

A graph and, for measured costs, a profile come in; the cost of every stream and lane goes out.
"""
