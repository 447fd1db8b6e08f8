"""Answers by other means: nothing here imports the package that they judge."""
