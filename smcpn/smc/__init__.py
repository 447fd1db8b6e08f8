"""Sequential Monte Carlo over parameters, for any `smcpn.likelihood.contract.Likelihood`.

`particles` holds the population and its targets; `sampler` the base of `ibis` and `tempering`;
`moves` rejuvenates by `kernels` and their `proposals`, `rejuvenation` counts and records it;
`resampling` resamples; `evidence` estimates the evidence; `replicates` combines populations.
"""
