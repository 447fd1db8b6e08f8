"""Closures and many parameters: gradients, moves, NUTS, and functions in place of unknown laws."""
