"""Sequential Monte Carlo over parameters, for any `smcpn.likelihood.contract.Likelihood`.

`particles` is the one container that moves together, `weights` and `resampling` act on it.
`sampler` is what every path has in common: `engine` walks through the record (IBIS), `tempering`
raises it as a whole, and `bridge` takes both across what is too informative. `moves` are the
strategies of a `rejuvenation`, made of `kernels` and their `proposals` (`mixture` among them).
`evidence` tells how well the evidence is known, `replicates` takes populations together, `cost`
and `diagnostics` say what a run took and what is wrong with it.
"""
