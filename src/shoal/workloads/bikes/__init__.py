"""Events in the shape of the Citi Bike data; the query is in `patterns`."""
