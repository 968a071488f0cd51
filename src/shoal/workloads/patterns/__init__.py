"""Pattern queries over bike trips and bus positions, with their oracles."""
