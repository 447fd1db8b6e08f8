"""Whether answers are right: bias, error bars and coverage, one module for each kind of error."""
