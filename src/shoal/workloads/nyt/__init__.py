"""Taxi trips: counts and mean distances per cell of a grid, from generated trips."""
