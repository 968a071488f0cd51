"""Load shedding as a session sees it: when input is shed, and what that does to the results of every query.

Reports of the runtime come in; commands for it, entries for the journal, and a report with estimates go out.
"""
