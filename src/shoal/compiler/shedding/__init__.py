"""What queries say about shedding: which input rows may be shed, and what the state of each instance is worth.

In come graphs, lanes and what a user asks for; out go rules for streams and fragments with utilities. Nothing is shed
here: runtimes drop rows, and mechanisms choose fragments.
"""
