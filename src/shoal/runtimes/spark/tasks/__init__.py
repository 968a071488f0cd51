"""The code that runs in Spark's Python workers.

In come slices of streams and the plan of an epoch; out go wire rows: input for lanes, results, dead letters, and the
reports that the driver commits. A task may run twice, so it writes only new segments.
"""
