"""Experiments compare engines and settings: declared trials come in, checked measurements and figures go out.

Every trial runs in a process of its own, and its results are checked before its time is reported.
"""
