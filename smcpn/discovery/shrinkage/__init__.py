"""Posteriors under priors that shrink all coefficients together."""
