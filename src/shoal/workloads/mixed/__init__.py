"""Copies of the ad, taxi and toll queries side by side, each over its own stream."""
