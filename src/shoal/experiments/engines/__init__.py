"""Engines run one trial each, on Shoal's runtimes or on a peer, and give its outcome."""
