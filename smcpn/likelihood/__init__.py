"""Log-likelihoods of a whole population of parameters, sample by sample.

`contract` is what the sampler relies on, `lanes` meets it with a compiled kernel, and `build` knows
the likelihoods by name. `marginal` and `classical` integrate the ODE whatever the data are;
`filtering`, `dalton` and `fenrir` learn its solution from the data too, and are three schemes of
`conditioned`.
"""
