"""The compiler turns a graph into a program that every runtime can execute.

In: a `Graph` and a `Partitioning`. Out: a `Program` of lanes, each with the steps that prepare its rows, a kernel and
its outlets, and a `Router` that sends rows and results between them. The compiler keeps no state and starts nothing;
the same graph always gives the same program.
"""
