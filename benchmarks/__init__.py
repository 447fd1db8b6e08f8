"""Measurements, each one command; see README.md."""
