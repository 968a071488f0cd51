"""Control: decides, while a job runs, whether its binding, partitioning or number of workers should change.

Runtime events come in, each with its time; commands and journal entries go out. Everything in here is pure: no clock,
no thread, no input or output. `shoal.session.steering` connects it to a runtime.
"""
