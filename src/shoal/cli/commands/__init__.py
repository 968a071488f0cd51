"""The commands of `shoal`, one module each.

In: options as the command line gives them. Out: calls of a session, an experiment or a checkpoint, and their outcome as
text or JSON. `shoal.cli.main` declares the options; what commands share is in `shoal.cli`.
"""
