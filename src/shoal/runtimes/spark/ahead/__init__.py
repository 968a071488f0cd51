"""Reading ahead: slices of the next epoch that are read while Spark's driver has little for the cores to do.

In: the slice that a source expects, and the plan of the running epoch. Out: what the slice gives, in a file that any
process of the machine can take, if the next epoch turns out as expected. Nothing in here decides a result.
"""
