"""SWARM: partitions of the plane that follow the load. Statistics of a round in, one change of the partitions out.

Everything here is pure: what a decision remembers is a value that is passed in and comes back.
"""
