"""Predictions: profiles of jobs, their calibration, and how well simulated runs by them predict real ones.

Jobs come in, and runs are started; what goes out are profiles for the simulated runtime, and comparisons.
"""
