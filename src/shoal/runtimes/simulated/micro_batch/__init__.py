"""A simulated Spark: micro-batches with the fixed costs of real ones, on executors with slots and links.

A program, rows and a machine of executors come in; epochs with their times go out. An epoch is what it is on Spark: a
stage that reads, an exchange, a stage per depth of lanes, and a commit, with nothing under way in between.
"""
