"""Runtimes: what executes a compiled graph, behind one protocol.

In come a graph, a binding, sources, a sink and commands; out go results to the sink and events to the session. A
runtime is one package or module and one line in `registry`. It executes the plans of `mechanisms` and decides nothing
about bindings.
"""
