"""Spatial matching: which points lie in which ranges.

Points and ranges that have cells of a grid come in as columns; pairs of them go out. A range is a rectangle, a circle
or a polygon, in a plane or in degrees of longitude and latitude. Loops over points and ranges are compiled.
"""
