"""Equations found in data: libraries of terms, and systems whose terms are not known."""
