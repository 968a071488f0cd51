"""The Spark runtime: one Structured Streaming job whose every micro-batch is one epoch.

`driver` plans and commits epochs, `tasks` is what runs in Spark's Python workers, `state` holds the checkpoint and the
state of instances, `rebinding` moves instances and takes commands, `cluster` knows sessions and executors.
"""
