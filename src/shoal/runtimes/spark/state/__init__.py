"""Durable state on Spark: the checkpoint's files, and the segments that hold the state of instances.

In come plans, manifests and tables of state; out they come again, in another process or after a crash. Damage is
reported as an error that names the file. Nothing here decides which worker has an instance.
"""
