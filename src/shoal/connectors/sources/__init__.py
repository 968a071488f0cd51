"""Sources: streams of events that can be replayed from any offset, from files or from a generator."""
