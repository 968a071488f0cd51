"""Machines to simulate: hosts with cores and memory nodes, links between hosts, outages, energy.

In: a notation such as `numa:2x12`, or a YAML file. Out: a `Machine`, a frozen value that is checked when it is made,
with flat arrays for the time plane. Nothing here has a clock or runs anything.
"""
