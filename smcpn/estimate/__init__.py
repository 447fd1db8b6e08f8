"""Estimation by gradients: the maximum of a posterior or a likelihood, and a Gaussian about it.

`density` is what is maximised, in unconstrained coordinates. `maximise` runs a `search` from every
one of the `starts`, and `rendezvous` lets them share their kernel calls. `maximum` is what comes
back, `laplace` the Gaussian there.
"""
