"""Terms that may stand in the equations of a system, and what is known of these."""
