"""Aggregation over panes: rows are grouped into cells, and running values (slots) are kept per cell.

Blocks and partial aggregates come in; pane tables and the results of closed windows go out.
"""
