"""Estimation by gradients: the maximum of a posterior or a likelihood, and the Gaussian there.

`log_density` is what is maximised, in unconstrained coordinates. `maximise` runs a `search` from
several starts: `least_squares` where samples are Gaussian, `quasi_newton` with any likelihood,
whose `batching` evaluates the points of all starts in one call. `laplace` takes the second
derivatives at the maximum.
"""

# Each registers itself; "auto" is the first that suits a likelihood.
from smcpn.estimate import least_squares as least_squares  # isort: skip
from smcpn.estimate import quasi_newton as quasi_newton  # isort: skip
