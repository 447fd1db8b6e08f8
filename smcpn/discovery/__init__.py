"""Equations from data: which candidate terms stand in them, with probabilities."""
