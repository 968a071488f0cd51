"""Measurements of what must not happen: memory that grows over hours, processes that do not end cleanly."""
