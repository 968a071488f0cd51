"""What the compiler knows of places: the tiles of lanes, and what comes to them."""
