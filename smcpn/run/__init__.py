"""Runs of an identification: begin, resume, and load from a checkpoint."""
