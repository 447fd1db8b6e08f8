"""Likelihoods that see the data, for one parameter vector, as the textbook writes them.

They are the reference for the compiled ones: dense square-root covariances, nothing shared.
`statespace` writes a problem as a Gauss-Markov model, `normal` has its three operations,
`forward` runs it with or without the data. `filtering`, `dalton` and `fenrir` differ in what the
vector field is linearised at, and in nothing else:

===========  ==========================================  =====================
likelihood   what it is                                  linearised at means
===========  ==========================================  =====================
filtering    product of p(y_t | y_<t, z_<=t)             given data so far
dalton       p(y, z) / p(z)                              so far / without data
fenrir       p(y, z) / p(z)                              without data
===========  ==========================================  =====================
"""
