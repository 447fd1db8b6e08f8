"""Run a model forward: with known parameters, or with weighted particles.

`simulator` integrates over a record, with process noise or without, `simulation` makes a prediction
with a band and scores of its outputs, `initialisation` finds the state at the start of a record.
`closed_loop` closes a loop around the model at every sample, or restarts it every k samples at a
filtered state.
"""
