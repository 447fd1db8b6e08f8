"""Probabilistic ODE solvers: the process prior, the filter's gains, and a plain reference."""
