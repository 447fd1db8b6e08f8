"""Sequential Monte Carlo over parameters, for any `smcpn.likelihood.contract.Likelihood`.

`particles` holds the population and its targets; `sampler` the base of `ibis` and `tempering`;
`moves` and `proposals` rejuvenate, `resampling` resamples; `evidence` estimates the evidence;
`replicates` combines populations.
"""
