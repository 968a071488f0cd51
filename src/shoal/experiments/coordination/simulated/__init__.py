"""Flows on a simulated network: one run in simulated time, in which tasks send rows and move queries between hosts.

In: a flow of a file with a key `network`, at a point. Out: a `TrialOutcome` as that of nodes, with what moves have
cost; or, before anything starts, what of the flow cannot be done.
"""
