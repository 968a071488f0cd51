"""Effects: what decisions have brought and commands have cost, measured afterwards by the events of a run.

Events and observations come in, entries of the journal go out. Nothing here decides.
"""
