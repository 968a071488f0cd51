"""Three queries for each region of a city, over vehicles that report their positions."""
