"""Input of simulations: which tasks there are, and what each of them does in every step."""
