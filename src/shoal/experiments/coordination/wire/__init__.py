"""Coordinator and nodes in several processes or on several hosts, over TCP.

Every message is one line of JSON, written and read by one codec; a line that announces rows is followed by so many
bytes of Arrow. Whoever connects proves that it has the token. Nothing is pickled, and nothing listens beyond loopback
unless it is told to.
"""
