"""Connectors bring rows into a job and take results out of it.

A source cuts its stream into slices that any worker can read again; admission checks each row against the stream's
schema and makes dead letters of the others; a sink stores result tables. Connectors know nothing of queries.
"""
