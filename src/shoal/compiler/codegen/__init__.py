"""Code generation fuses stateless steps into one compiled loop per chain.

In: steps and the types of the columns they read. Out: a `Chain` that gives, bit for bit, the blocks that the steps
give one by one. Steps without row code stay as they are. Compiled loops are cached on disk.
"""
