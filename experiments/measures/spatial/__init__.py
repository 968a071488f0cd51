"""Measurements of places: points that find rectangles, statistics of tiles, and policies that follow them."""
