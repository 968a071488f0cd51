"""Workloads: ready-made jobs with generated events and an oracle that computes the expected results.

A seed, an amount of events and settings come in; a job and its oracle go out. Oracles use no code of the runtimes.
"""
