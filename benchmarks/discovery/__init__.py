"""Equations from data: grids of the field, reliability of probabilities, priors, time, the shim."""
