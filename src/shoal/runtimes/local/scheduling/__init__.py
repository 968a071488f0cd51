"""Worker threads: which node each runs next, where, and how all of them stop at a barrier.

Nodes come in, with a scheduling policy or queues; turns of these nodes go out, with the time that each has taken.
"""
