"""Models as people have them: noise by formulas, limits, initial states, published problems."""
