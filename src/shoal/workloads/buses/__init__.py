"""Events in the shape of the Dublin bus data; the queries are in `patterns`."""
