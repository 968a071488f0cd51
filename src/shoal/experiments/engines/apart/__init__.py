"""Engines in Python environments of their own, since they pin versions of packages that are not Shoal's.

In: jobs as JSON and rows as files. Out: results as Arrow files. `child.py` is the program that runs there; it and the
adapters beside it know nothing of Shoal.
"""
