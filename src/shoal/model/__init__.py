"""The model: the values that all other packages exchange.

Everything here is plain and frozen: queries in `query`, and what controls a run in `control`. Nothing here computes
results, reads a clock or does I/O, and nothing here imports another package of Shoal except its errors.
"""
