"""Search over a path of the states and parameters together: `homotopy` of a falling model error."""
