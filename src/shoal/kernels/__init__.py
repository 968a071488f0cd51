"""Kernels: the logic of stateful operators, and the columns and expressions they work on.

Blocks of rows and watermarks come in; results, late rows and state as tables go out. A kernel is a constant value and
its state an argument. This room has no I/O, threads or clock, and only this room may take state apart into fragments.
"""
