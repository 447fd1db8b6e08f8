"""Particle filters of a model's states, one for each theta, compiled and twisted.

`guide` has the look-ahead functions as graphs, `blocks` lays these out as statements, `normals` and
`weights` write random numbers and resampling, and `machine` sets all of it into loops. `kernel`
runs the compiled filters, and `likelihood` is the contract that samplers know, with the history
that one of them has seen.
"""
