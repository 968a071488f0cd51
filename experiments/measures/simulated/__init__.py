"""Measurements of the simulator: what runs cost, its event core beside others, and what its model of queues is fed."""
