"""State shedding: which fragments of state to move when there is no time for all of them.

In come the utility and size of fragments, and the bytes that links can carry until a deadline; out goes the order in
which to send fragments. What was not sent in time is lost, and reported: how much, of which keys, and how far off
results can be. Nothing here moves state.
"""
