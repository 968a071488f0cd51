"""The driver's side: takes a run from one epoch to the next.

In come Spark's micro-batches and commands; out go plans, manifests, results to the sink, and events. All decisions that
a replay must repeat are made here and written to the plan before any task starts.
"""
