"""Run a model forward: with known parameters, or with a whole posterior.

`simulator` integrates over a record, `particles` turns what it yields into a prediction with a
band and scores, `initialisation` finds the state at the start of a record, `sampled` closes a loop
around the model at every sample, `prediction` looks k samples ahead.
"""
