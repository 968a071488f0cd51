"""The language of experiment files: YAML of our own, of Expose and of DCEP-Sim.

In: the text of a file, and which of its variants is meant. Out: an `ExperimentFile` in which every name is known, every
task has the arguments it needs and every point can be run; or a `GraphError` with file, line and what would be valid.
Nothing is started here, and no Python of a file is run.
"""
