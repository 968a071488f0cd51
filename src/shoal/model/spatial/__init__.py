"""The plane as queries and partitionings see it: grids of cells, and the rectangles of cells that divide them."""
