"""The simulated runtime: a graph on a machine that need not exist, in simulated time."""
