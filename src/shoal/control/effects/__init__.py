"""Effects: what the commands of a run have cost, measured afterwards by its events.

Every event of a runtime comes in, entries of the journal go out. Nothing here decides.
"""
