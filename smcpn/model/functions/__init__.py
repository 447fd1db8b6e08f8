"""Functions that nobody knows, as expression graphs of finitely many parameters with priors."""
