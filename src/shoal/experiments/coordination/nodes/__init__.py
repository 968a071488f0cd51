"""Nodes: what a task does at a node, the rows that nodes send each other, and the trace that each of them keeps.

In: tasks as plain data, and rows from other nodes. Out: rows to other nodes, digests of results, and trace records.
Nothing here knows whether nodes are threads, processes or hosts.
"""
