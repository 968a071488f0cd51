"""Costly operators on road segments with a hotspot that moves: the workload for rebinding."""
