"""Sources: streams of events that can be replayed from any offset, from files, a generator or a program that runs."""
