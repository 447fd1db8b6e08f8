"""Whole identification of one record by this package and by others."""
