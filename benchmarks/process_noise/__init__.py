"""Disturbed models: Kalman and particle likelihoods, SMC^2, states, streams, cascaded tanks."""
