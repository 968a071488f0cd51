"""Values that control a run: topology, binding, partitioning, snapshots, fragments, costs, commands and events.

In: what runtimes measure and policies propose. Out: the same values on every runtime. Nothing here carries a change
out.
"""
