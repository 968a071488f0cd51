"""Outcomes of trials come in; verdicts, medians with intervals, comparisons, tables, figures and pages go out.

Trials are kept in files. Results are compared before any number is shown, and a number never stands without the number
of its repetitions and its spread.
"""
