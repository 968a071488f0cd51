"""Measurements of kernels by themselves: in one process, without Spark and without files of events."""
