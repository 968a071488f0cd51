"""The compiled event core: tasks, queues, workers and links in simulated time."""
