"""The simulated network, row by row: kernels run on hosts at the simulated time, and state moves over links in pieces.

Unlike the core of `engine/`, in which rows are processed when they are read and only their cost is placed in time, here
every instance processes its rows when they have reached it. So mechanisms that move state in pieces, and the loss of
what does not arrive, are simulated exactly. That takes a kernel call for every block and instance: a few thousand
blocks per second instead of millions.
"""
