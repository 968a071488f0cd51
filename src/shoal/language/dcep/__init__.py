"""DCEP-Sim's operators, as its graph files write them, translated into flows.

In: the vertices of one query, inputs first. Out: the same query in Shoal's operators.
"""
