"""Planning: what would run where on a machine that is only described, and why.

In: a job, a topology and a policy. Out: a plan, with hosts, queries, the candidates that were not chosen, and warnings.
Loads and costs come from short simulated runs in statistical mode; nothing runs for real.
"""
