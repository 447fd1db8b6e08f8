"""Results of a discovery, and how they are printed and compared."""
