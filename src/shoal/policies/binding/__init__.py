"""Binding policies: which worker every stateful instance is on.

`loads` holds the measured input in columns, `layout` derives them from a graph and a snapshot. Every other module is
one policy, or a part of one; a new binding goes out.
"""
