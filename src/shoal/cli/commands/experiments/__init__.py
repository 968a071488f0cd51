"""Commands of `shoal experiment`: nodes, runs, comparisons and reports; `experiment.py` has the group and the rest."""
