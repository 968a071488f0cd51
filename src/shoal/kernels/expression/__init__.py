"""Evaluation of expressions: an expression and a block come in, a column with a value for every row goes out."""
