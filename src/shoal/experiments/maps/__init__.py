"""Maps of spatial runs: from the journal to a picture, a page that plays them, and GeoJSON."""
