"""Sequential Monte Carlo over parameters, for any `smcpn.likelihood.contract.Likelihood`.

`particles` is the one container that moves together, `weights` and `resampling` act on it,
`proposals` and `moves` rejuvenate it, `bridge` takes it across a sample that is too informative,
and `engine` walks through the record (IBIS).
"""
