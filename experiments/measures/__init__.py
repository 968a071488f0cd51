"""What the experiments of this directory measure: parameters of a point in, a `TrialOutcome` out.

A function is called once per trial, in a process of its own, with the parameters of the point as keyword arguments. It
checks its results before it gives numbers. Points, repetitions, medians and tables are the runner's business.
"""
