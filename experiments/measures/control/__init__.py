"""Measurements of what the controller decides: policies, thresholds, mechanisms that are chosen."""
