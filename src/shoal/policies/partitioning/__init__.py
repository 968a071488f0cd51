"""Partitioning policies: which instances are split or merged while a job runs.

Loads, binding and partitioning come in; proposed changes of the partitioning go out.
"""
