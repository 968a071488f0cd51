"""Changes of partitionings: instances that are split and merged by their work, and rectangles that follow the load.

Observations and arrivals come in; commands to repartition or rebind go out, with entries for the journal.
"""
