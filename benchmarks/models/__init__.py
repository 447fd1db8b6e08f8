"""Models as people have them: compiled equations, formulas, censored samples, doses."""
