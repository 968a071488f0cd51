"""Columnar data of kernels: blocks of rows, tables of state, and how their rows are numbered, ordered and identified.

Arrow batches come in; NumPy or Arrow columns go out, and Arrow batches again for storage and transfer.
"""
