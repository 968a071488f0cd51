"""The Spark application: its session, log and failures, its executors, and which executor each worker runs on.

In come settings and the number of workers; out go sessions, the topology, lost workers, and errors in one sentence.
Results never depend on anything here.
"""
