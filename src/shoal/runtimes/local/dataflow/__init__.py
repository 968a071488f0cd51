"""Nodes and the channels between them: a compiled program as it runs.

A program and its sources come in. Result rows and dead letters go out through `Delivery`, and loads through `Load`.
"""
