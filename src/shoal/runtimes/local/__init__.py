"""The local runtime: a graph on the threads of this process.

Graphs, bindings and commands come in through `LocalRuntime`; events go out of it, and results to the sink.
"""
