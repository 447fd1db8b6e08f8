"""Results as data: `Posterior`, `Laplace` and `Maximum`, with their tables, scores and comparison.

`draws` holds the arrays and their moments, `posterior` the methods that run something with them.
"""
