"""Moves of state: mechanisms, their twin, and the studies on lazy migration and shedding."""
