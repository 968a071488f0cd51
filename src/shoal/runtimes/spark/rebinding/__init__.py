"""Changes of a run on Spark: commands, and the moves of instances between epochs.

In come commands, from the session or from files, and the plans of `mechanisms`; out go the position of the next epoch
and reports of finished moves. State itself is moved by the tasks that load it.
"""
