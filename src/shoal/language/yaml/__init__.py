"""Queries in YAML: graph files in Shoal's own operators or in DCEP-Sim's, read and written.

In: the text of a file. Out: a graph, its streams and its datasets, or a `GraphError` with the line. A graph that is
written and read again is the same graph.
"""
