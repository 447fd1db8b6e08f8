"""Searches in boxes of ten decades, and posteriors there."""
