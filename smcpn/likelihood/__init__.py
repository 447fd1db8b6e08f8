"""Log-likelihoods of a whole population of parameters, sample by sample.

`contract` is what the sampler relies on, `lanes` meets it with a compiled kernel, and each of
`marginal` and `classical` is one way to turn an ODE into such a kernel.
"""
