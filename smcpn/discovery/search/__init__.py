"""The search for terms: Gauss-Newton steps along a path, each with a selection."""
