"""Estimation by gradients: the maximum of a posterior or a likelihood, and the Gaussian there.

`log_density` is what is maximised, in unconstrained coordinates. `maximise` runs a `search` from
every start, and `batching` evaluates the points that they ask for in one call. `laplace` takes the
second derivatives at the maximum.
"""
