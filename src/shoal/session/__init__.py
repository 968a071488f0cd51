"""Sessions: start a job on a runtime, follow it to its end, and steer it by a policy.

A job comes in, from Python, SQL or a graph file; a run with its results, its tally and its journal goes out. This is
the only room that connects the controller to a runtime.
"""
