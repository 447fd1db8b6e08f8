"""From a problem to its posterior."""
