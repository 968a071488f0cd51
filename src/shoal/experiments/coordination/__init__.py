"""Flows of tasks: a coordinator gives tasks to nodes, each of which is an engine, and traces say what happened.

In: a `TaskFlow` at a point, and what its file declares. Out: a `TrialOutcome` with the throughput of every set, the
digests of the results that reached each node, and the trace; or the reason of the failure, with node and task.
"""
