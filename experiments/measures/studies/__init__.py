"""The first two studies on simulated machines."""
